/* Takes streamed answers in without waking Python for every read.
 *
 * A socket that is listened to is read here as soon as it has something: bytes, the kernel's stamp and this process's
 * instant are kept until an empty line ends what came (as it ends every chunked body), or something else happens that
 * Python has to look at. A socket that relays goes further: relaying.c. Plain C without Python's headers, which
 * receiving.py loads; descriptors are watched, opened and closed by the caller.
 */
#define _GNU_SOURCE
#include "receiving.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define READ_BYTES 16384
#define KEPT_BYTES (1 << 20) /* A longer answer's room is given back. */
#define STAY_NS 10000000     /* While more keeps coming Python is asked so often: it has rates to look at, */
#define LEAST_GATHER_NS 100000
#define MOST_RELAYED 64      /* and answers to read: so many are enough. */
/* As in clocks.py and the SDK's stamps.py. */
#define READINGS 5           /* The best of so many readings of the clocks counts, */
#define GOOD_READING_NS 2000 /* unless one takes less than this. */
#define MOST_SLEW 600e-6     /* A wall clock that gains or loses more was set. */
#define READING_ERROR_NS 30000

struct heard {
    const unsigned char *data;
    uint64_t length;
    const struct reading *readings;
    uint64_t count;
};

int64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static int64_t wall_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Read both clocks; where a reading was interrupted, the best of a few counts. */
static void read_clocks(struct receiver *self)
{
    int64_t last_ns = self->read_ns, offset_ns = self->offset_ns, best_ns = INT64_MAX;
    for (int count = 0; count < READINGS && best_ns > GOOD_READING_NS; count++) {
        int64_t before_ns = now_ns(), wall = wall_ns(), took_ns = now_ns() - before_ns;
        if (took_ns < best_ns) {
            best_ns = took_ns;
            self->read_ns = before_ns + took_ns / 2;
            self->offset_ns = wall - self->read_ns;
        }
    }
    double moved_ns = (double)(self->offset_ns - offset_ns), span_ns = (double)(self->read_ns - last_ns);
    double most_ns = MOST_SLEW * span_ns + READING_ERROR_NS;
    self->was_set = last_ns != 0 && (moved_ns > most_ns || moved_ns < -most_ns);
}

struct receiver *receiver_new(void)
{
    return calloc(1, sizeof(struct receiver));
}

static void give_back(struct ear *ear)
{
    free(ear->data);
    free(ear->readings);
    memset(ear, 0, sizeof *ear);
}

void receiver_free(struct receiver *self)
{
    receiver_end_relaying(self);
    free(self->ended.data);
    free(self->alike.data);
    for (size_t fd = 0; fd < self->size; fd++)
        give_back(&self->ears[fd]);
    free(self->ears);
    free(self);
}

static struct ear *begin(struct receiver *self, int fd, uint64_t limit)
{
    if ((size_t)fd >= self->size) {
        size_t size = (size_t)fd + 64;
        struct ear *ears = realloc(self->ears, size * sizeof *ears);
        if (ears == NULL)
            return NULL;
        memset(ears + self->size, 0, (size - self->size) * sizeof *ears);
        self->ears = ears;
        self->size = size;
    }
    struct ear *ear = &self->ears[fd];
    ear->length = ear->count = ear->walked = 0;
    ear->tail = 0;
    ear->limit = limit;
    ear->listens = 1;
    ear->relays = 0;
    return ear;
}

/* Begin to listen; `tail` are the last bytes before, the last one lowest. 0, or -ENOMEM. */
int receiver_listen(struct receiver *self, int fd, uint32_t tail, uint64_t limit)
{
    struct ear *ear = begin(self, fd, limit);
    if (ear == NULL)
        return -ENOMEM;
    ear->tail = tail;
    return 0;
}

/* Listen to the answer to a request from its first byte, and relay it. 0, or -ENOMEM. */
int receiver_relay(struct receiver *self, int fd, uint64_t limit, int64_t stream, const struct exchange *now)
{
    struct ear *ear = begin(self, fd, limit);
    if (ear == NULL)
        return -ENOMEM;
    ear->relays = 1;
    ear->stream = stream;
    ear->now = *now;
    ear->begun = 0;
    return 0;
}

/* End listening and show what was heard; it is there until somebody listens to the same descriptor again. */
void receiver_take(struct receiver *self, int fd, struct heard *heard)
{
    struct ear *ear = &self->ears[fd];
    ear->listens = 0;
    heard->data = ear->data;
    heard->length = ear->length;
    heard->readings = ear->readings;
    heard->count = ear->count;
}

/* The descriptor is about to be closed. */
void receiver_forget(struct receiver *self, int fd)
{
    if ((size_t)fd >= self->size)
        return;
    self->ears[fd].listens = 0;
    if (self->ears[fd].room > KEPT_BYTES)
        give_back(&self->ears[fd]);
}

static int make_room(struct ear *ear)
{
    if (ear->room - ear->length < READ_BYTES) {
        size_t room = ear->room ? 2 * ear->room : 4 * READ_BYTES;
        unsigned char *data = realloc(ear->data, room);
        if (data == NULL)
            return 0;
        ear->data = data;
        ear->room = room;
    }
    if (ear->count == ear->places) {
        size_t places = ear->places ? 2 * ear->places : 256;
        struct reading *readings = realloc(ear->readings, places * sizeof *readings);
        if (readings == NULL)
            return 0;
        ear->readings = readings;
        ear->places = places;
    }
    return 1;
}

static int64_t stamp_of(struct msghdr *message)
{
    struct cmsghdr *said = CMSG_FIRSTHDR(message);
    if (said == NULL || said->cmsg_level != SOL_SOCKET || said->cmsg_type != SCM_TIMESTAMPNS)
        return 0;
    struct timespec at;
    memcpy(&at, CMSG_DATA(said), sizeof at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Read once; Python has to look at the end, an error, an empty line, too much, or where there is no memory. */
static enum outcome hear(struct receiver *self, struct ear *ear, int fd)
{
    if (!make_room(ear))
        return LOOK;
    union {
        char space[CMSG_SPACE(sizeof(struct timespec))];
        struct cmsghdr aligned;
    } control;
    struct iovec into = {ear->data + ear->length, READ_BYTES};
    struct msghdr message = {
        .msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    ssize_t came = recvmsg(fd, &message, MSG_DONTWAIT);
    if (came < 0)
        return errno == EAGAIN || errno == EINTR ? GOES_ON : LOOK;
    if (came == 0)
        return LOOK;
    ear->length += (size_t)came;
    ear->readings[ear->count++] = (struct reading){(int64_t)ear->length, now_ns(), stamp_of(&message)};
    const unsigned char *last = ear->data + ear->length - (came < 4 ? came : 4);
    for (; last < ear->data + ear->length; last++)
        ear->tail = ear->tail << 8 | *last;
    if (ear->length > ear->limit)
        return LOOK;
    if (ear->relays)
        return relay(self, ear, fd);
    return ear->tail == EMPTY_LINE ? LOOK : GOES_ON;
}

static void sleep_ns(int64_t ns)
{
    struct timespec span = {ns / 1000000000, ns % 1000000000};
    nanosleep(&span, NULL);
}

/* Let a moment pass, at most half of the time to the next deadline. */
static void gather(int64_t ns, int64_t due_ns)
{
    int64_t due_in_ns = due_ns ? due_ns - now_ns() : 2 * ns;
    if (due_in_ns >= 2 * LEAST_GATHER_NS)
        sleep_ns(due_in_ns < 2 * ns ? due_in_ns / 2 : ns);
}

/* Wait for what Python has to look at, hearing and relaying meanwhile.
 *
 * timeout_ns: for the first thing to come, -1: for ever. gather_ns: let so much pass before each look, less where
 * an instant is near: due_ns, 0: none. out: how often something was heard that is no event, how many answers were relayed,
 * then descriptor and mask << 32 of each event; it has room for two more than MOST_EVENTS.
 * Returns the number of events, or -errno.
 */
int receiver_wait(struct receiver *self, int poll, int64_t timeout_ns, int64_t gather_ns, int64_t due_ns, uint64_t *out)
{
    struct epoll_event ready[MOST_EVENTS];
    int64_t until_ns = 0;
    int timeout_ms = timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000);
    int events = 0;
    out[0] = 0;
    self->ended.length = self->alike.length = 0;
    self->relayed = 0;
    for (;;) {
        if (gather_ns)
            gather(gather_ns, due_ns);
        int count = epoll_wait(poll, ready, MOST_EVENTS, timeout_ms);
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count > 0)
            read_clocks(self);
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.fd;
            struct ear *ear = (size_t)fd < self->size ? &self->ears[fd] : NULL;
            if (ear != NULL && ear->listens && ready[at].events == EPOLLIN && hear(self, ear, fd) == GOES_ON)
                out[0]++;
            else
                out[2 + events++] = (uint64_t)ready[at].events << 32 | (uint32_t)fd;
        }
        if (events || count <= 0 || timeout_ns == 0 || self->relayed >= MOST_RELAYED)
            break;
        int64_t at_ns = now_ns();
        if (until_ns == 0)
            until_ns = at_ns + STAY_NS;
        if (at_ns >= until_ns)
            break;
        if (self->relayed)
            timeout_ms = STAY_NS / 1000000;
    }
    out[1] = (uint64_t)self->relayed;
    return events;
}
