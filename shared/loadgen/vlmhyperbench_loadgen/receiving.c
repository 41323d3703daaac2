/* Takes streamed answers in without waking Python for every read.
 *
 * A socket that is listened to is read here as soon as it has something: bytes, the kernel's stamp and this process's
 * instant are kept until an empty line ends what came (as it ends every chunked body), or something else happens that
 * Python has to look at. What the bytes mean is not known here. Plain C without Python's headers: receiving.py loads it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define READ_BYTES 16384
#define MOST_EVENTS 256
#define KEPT_BYTES (1 << 20) /* A longer answer's room is given back. */
#define STAY_NS 10000000     /* So often Python is asked in any case: it has signals to answer and rates to look at. */
#define EMPTY_LINE 0x0D0A0D0Au

struct reading {
    int64_t end; /* Length of what was kept after it. */
    int64_t at_ns;
    int64_t stamp_ns; /* The kernel's, on the wall clock; 0 where it said nothing. */
};

struct ear {
    unsigned char *data;
    size_t length, room, limit;
    struct reading *readings;
    size_t count, places;
    uint32_t tail; /* The last four bytes. */
    int listens;
};

struct receiver {
    struct ear *ears; /* By file descriptor. */
    size_t size;
};

struct heard {
    const unsigned char *data;
    uint64_t length;
    const struct reading *readings;
    uint64_t count;
};

static int64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
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
    for (size_t fd = 0; fd < self->size; fd++)
        give_back(&self->ears[fd]);
    free(self->ears);
    free(self);
}

/* Begin to listen; `tail` are the last bytes before, the last one lowest. 0, or -ENOMEM. */
int receiver_listen(struct receiver *self, int fd, uint32_t tail, uint64_t limit)
{
    if ((size_t)fd >= self->size) {
        size_t size = (size_t)fd + 64;
        struct ear *ears = realloc(self->ears, size * sizeof *ears);
        if (ears == NULL)
            return -ENOMEM;
        memset(ears + self->size, 0, (size - self->size) * sizeof *ears);
        self->ears = ears;
        self->size = size;
    }
    struct ear *ear = &self->ears[fd];
    ear->length = ear->count = 0;
    ear->tail = tail;
    ear->limit = limit;
    ear->listens = 1;
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

/* Read once; 1 where Python has to look: the end, an error, an empty line, too much, or no memory. */
static int hear(struct ear *ear, int fd)
{
    if (!make_room(ear))
        return 1;
    union {
        char space[CMSG_SPACE(sizeof(struct timespec))];
        struct cmsghdr aligned;
    } control;
    struct iovec into = {ear->data + ear->length, READ_BYTES};
    struct msghdr message = {
        .msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    ssize_t came = recvmsg(fd, &message, MSG_DONTWAIT);
    if (came < 0)
        return errno != EAGAIN && errno != EINTR;
    if (came == 0)
        return 1;
    ear->length += (size_t)came;
    ear->readings[ear->count++] = (struct reading){(int64_t)ear->length, now_ns(), stamp_of(&message)};
    const unsigned char *last = ear->data + ear->length - (came < 4 ? came : 4);
    for (; last < ear->data + ear->length; last++)
        ear->tail = ear->tail << 8 | *last;
    return ear->tail == EMPTY_LINE || ear->length > ear->limit;
}

static void sleep_ns(int64_t ns)
{
    struct timespec span = {ns / 1000000000, ns % 1000000000};
    nanosleep(&span, NULL);
}

/* Wait for what Python has to look at, hearing meanwhile.
 *
 * timeout_ns: for the first thing to come, -1: for ever. gather_ns: let so much pass before each look, unless an
 * instant is near: due_ns, 0: none. out: how often something was heard that is no event, then descriptor and mask << 32 of each event;
 * it has room for one more than MOST_EVENTS. Returns the number of events, or -errno.
 */
int receiver_wait(struct receiver *self, int poll, int64_t timeout_ns, int64_t gather_ns, int64_t due_ns, uint64_t *out)
{
    struct epoll_event ready[MOST_EVENTS];
    int64_t until_ns = now_ns() + STAY_NS;
    int timeout_ms = timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000);
    int events = 0;
    out[0] = 0;
    for (;;) {
        if (gather_ns && (due_ns == 0 || due_ns - now_ns() > 2 * gather_ns))
            sleep_ns(gather_ns);
        int count = epoll_wait(poll, ready, MOST_EVENTS, timeout_ms);
        if (count < 0)
            return errno == EINTR ? 0 : -errno;
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.fd;
            struct ear *ear = (size_t)fd < self->size ? &self->ears[fd] : NULL;
            if (ear != NULL && ear->listens && ready[at].events == EPOLLIN) {
                if (!hear(ear, fd)) {
                    out[0]++;
                    continue;
                }
            }
            out[++events] = (uint64_t)ready[at].events << 32 | (uint32_t)fd;
        }
        if (events || count == 0 || timeout_ns == 0 || now_ns() >= until_ns)
            return events;
    }
}
