/* What receiving.c and relaying.c share. */
#ifndef RECEIVING_H
#define RECEIVING_H

#include <stddef.h>
#include <stdint.h>

/* Python repeats MOST_EVENTS and the counts of receiver_wait, and sees struct reading, exchange, heard, ended and alike
 * in memory: `receiving.py` and `relaying.py` change with any of them. */
#define MOST_EVENTS 256

#define EMPTY_LINE 0x0D0A0D0Au
#define MOST_HEAD_BYTES 65536
#define MOST_LIKENESSES 256
#define MOST_SPANS 64

struct reading {
    int64_t end; /* Length of what was kept after it. */
    int64_t at_ns;
    int64_t stamp_ns; /* The kernel's, on the wall clock; 0 where it said nothing. */
};

/* A request that is under way on a socket that relays. */
struct exchange {
    int64_t request; /* Its place in the queue; -1: none is. */
    int64_t scheduled_ns;
    int64_t sent_ns;
    int64_t sent; /* Bytes that left; -1: the socket is broken. */
    int64_t read_ns, offset_ns; /* The clocks shortly before, as below. */
};

/* A socket that is listened to. */
struct ear {
    unsigned char *data;
    size_t length, room, limit;
    struct reading *readings;
    size_t count, places;
    uint32_t tail; /* The last four bytes. */
    int listens, relays;
    size_t walked; /* Where the next chunk of an answer that is relayed begins; 0: its head is not known yet. */
    int64_t stream, begun;
    struct exchange now;
};

/* A buffer that grows. */
struct log {
    unsigned char *data;
    size_t length, room;
};

/* An answer that says the same as another one but for its id. */
struct likeness {
    unsigned char *data;
    size_t length, spans;
    size_t from[MOST_SPANS], to[MOST_SPANS]; /* The places of the id. */
};

struct receiver {
    struct ear *ears; /* By file descriptor. */
    size_t size;
    int64_t read_ns, offset_ns; /* The clocks, not long ago: when they were read, and wall minus monotonic. */
    int was_set;                /* The wall clock, between the last two readings. */
    const unsigned char *bodies;
    size_t bodies_length;
    int64_t *offsets, *lengths; /* Of requests in `bodies`. */
    int64_t next, last;
    char head[MOST_HEAD_BYTES]; /* Of requests, up to the value of Content-Length. */
    size_t head_length;
    unsigned char answer_head[MOST_HEAD_BYTES];
    size_t answer_head_length; /* 0: none is known. */
    struct likeness likenesses[MOST_LIKENESSES];
    int taught;
    struct log ended, alike; /* Answers that were relayed in this wait. */
    int64_t relayed;
};

enum outcome { GOES_ON, LOOK };

__attribute__((visibility("hidden"))) int64_t now_ns(void);

/* Look at what came on a socket that relays. */
__attribute__((visibility("hidden"))) enum outcome relay(struct receiver *self, struct ear *ear, int fd);

void receiver_end_relaying(struct receiver *self);

#endif
