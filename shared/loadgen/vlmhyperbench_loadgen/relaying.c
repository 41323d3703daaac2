/* Sends the next request of a closed loop when an answer has ended, and sorts out answers that are like one known.
 *
 * Relayed is an answer in chunks, whole, under the very head that Python has read before. Everything else is Python's.
 */
#define _GNU_SOURCE
#include "receiving.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_AHEAD_NS 30000 /* By so much an instant of the kernel's may seem too early or too late. */

/* Relayed answers as Python gets them; readings and bytes follow the first. */
struct ended {
    int64_t stream;
    struct exchange exchange;
    int64_t count, length;
};

struct alike {
    int64_t stream, request, likeness, scheduled_ns, sent_ns, end_ns, is_stamped;
};

void receiver_end_relaying(struct receiver *self)
{
    if (self->bodies_length)
        munmap((void *)self->bodies, self->bodies_length);
    free(self->offsets);
    free(self->lengths);
    for (int at = 0; at < MOST_LIKENESSES; at++)
        free(self->likenesses[at].data);
    memset(self->likenesses, 0, sizeof self->likenesses);
    self->bodies = NULL;
    self->offsets = self->lengths = NULL;
    self->bodies_length = self->answer_head_length = 0;
    self->next = self->last = 0;
    self->taught = 0;
}

/* Hold a queue of `count` requests, which begin with `head` and go on with a part of a file. 0, or -errno. */
int receiver_begin_relaying(struct receiver *self, const char *path, const char *head, uint64_t head_length,
                            const int64_t *offsets, const int64_t *lengths, uint64_t count)
{
    receiver_end_relaying(self);
    if (head_length > sizeof self->head - 32)
        return -E2BIG;
    memcpy(self->head, head, head_length);
    self->head_length = head_length;
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -errno;
    void *bodies = fstat(file, &about) < 0 ? MAP_FAILED : mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
    int failed = bodies == MAP_FAILED ? errno : 0;
    close(file);
    if (failed)
        return -failed;
    self->bodies = bodies;
    self->bodies_length = (size_t)about.st_size;
    self->offsets = malloc(count * sizeof *offsets);
    self->lengths = malloc(count * sizeof *lengths);
    if (self->offsets == NULL || self->lengths == NULL) {
        receiver_end_relaying(self);
        return -ENOMEM;
    }
    for (uint64_t at = 0; at < count; at++) {
        if (offsets[at] < 0 || lengths[at] < 0 || offsets[at] > about.st_size - lengths[at]) {
            receiver_end_relaying(self);
            return -EINVAL;
        }
    }
    memcpy(self->offsets, offsets, count * sizeof *offsets);
    memcpy(self->lengths, lengths, count * sizeof *lengths);
    self->last = (int64_t)count;
    return 0;
}

/* Take the next request out of the queue: its place, -1 where none is left. */
int64_t receiver_take_next(struct receiver *self)
{
    return self->next < self->last ? self->next++ : -1;
}

/* Send nothing of the queue any more; how many requests were left. */
int64_t receiver_drain(struct receiver *self)
{
    int64_t left = self->last - self->next;
    self->last = self->next;
    return left;
}

/* Say how answers begin that can be relayed. 0, or -E2BIG. */
int receiver_set_answer_head(struct receiver *self, const unsigned char *head, uint64_t length)
{
    if (length > sizeof self->answer_head)
        return -E2BIG;
    memcpy(self->answer_head, head, length);
    self->answer_head_length = length;
    return 0;
}

/* Say that all answers mean the same that have these bytes but for the spans. The slot, or -errno. */
int receiver_add_likeness(struct receiver *self, const unsigned char *data, uint64_t length, const int64_t *spans,
                          uint64_t count)
{
    if (count > MOST_SPANS)
        return -E2BIG;
    unsigned char *kept = malloc(length);
    if (kept == NULL)
        return -ENOMEM;
    memcpy(kept, data, length);
    int slot = self->taught++ % MOST_LIKENESSES;
    struct likeness *like = &self->likenesses[slot];
    free(like->data);
    *like = (struct likeness){.data = kept, .length = length, .spans = count};
    for (uint64_t at = 0; at < count; at++) {
        like->from[at] = (size_t)spans[2 * at];
        like->to[at] = (size_t)spans[2 * at + 1];
    }
    return slot;
}

/* What is under way on a socket, and how many requests were begun on it since this was asked. */
int64_t receiver_state(struct receiver *self, int fd, struct exchange *now)
{
    struct ear *ear = &self->ears[fd];
    int64_t begun = ear->begun;
    ear->begun = 0;
    *now = ear->now;
    return begun;
}

/* One of the two logs of what the last wait has relayed; NULL where nothing ever was put into it. */
const unsigned char *receiver_log(const struct receiver *self, int of_alike, uint64_t *length)
{
    const struct log *log = of_alike ? &self->alike : &self->ended;
    *length = log->length;
    return log->data;
}

static unsigned char *grow(struct log *log, size_t by)
{
    if (log->room - log->length < by) {
        size_t room = 2 * (log->length + by);
        unsigned char *data = realloc(log->data, room);
        if (data == NULL)
            return NULL;
        log->data = data;
        log->room = room;
    }
    log->length += by;
    return log->data + log->length - by;
}

enum walked { MORE, WHOLE, ODD };

static int hex(unsigned char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static int is_line_end(const unsigned char *at)
{
    return at[0] == '\r' && at[1] == '\n';
}

/* Go on over chunks without extensions; whole is what ends with the last of them, without trailers. */
static enum walked walk(struct ear *ear)
{
    const unsigned char *data = ear->data;
    size_t at = ear->walked, length = ear->length;
    while (at < length) {
        size_t size = 0, digits = 0;
        for (; at < length && hex(data[at]) >= 0; at++, digits++)
            size = size << 4 | (size_t)hex(data[at]);
        if (digits == 0 || digits > 7)
            return ODD;
        if (length - at < 2)
            return MORE;
        if (!is_line_end(data + at))
            return ODD;
        at += 2;
        if (length - at < size + 2)
            return MORE;
        if (!is_line_end(data + at + size))
            return ODD;
        at += size + 2;
        if (size == 0)
            return at == length ? WHOLE : ODD;
        ear->walked = at;
    }
    return MORE;
}

static enum walked walk_answer(struct receiver *self, struct ear *ear)
{
    size_t head = self->answer_head_length;
    if (ear->walked == 0) {
        if (head == 0 || memcmp(ear->data, self->answer_head, ear->length < head ? ear->length : head) != 0)
            return ODD;
        if (ear->length < head)
            return MORE;
        ear->walked = head;
    }
    return ear->tail == EMPTY_LINE ? walk(ear) : MORE;
}

static int is_id(const unsigned char *from, const unsigned char *to)
{
    for (; from < to; from++) {
        unsigned char letter = *from | 0x20;
        if (!(letter >= 'a' && letter <= 'z') && !(*from >= '0' && *from <= '9') && memchr("-_.:", *from, 4) == NULL)
            return 0;
    }
    return 1;
}

static int is_like(const struct ear *ear, const struct likeness *like)
{
    if (like->data == NULL || like->length != ear->length)
        return 0;
    size_t at = 0;
    for (size_t span = 0; span < like->spans; span++) {
        if (memcmp(ear->data + at, like->data + at, like->from[span] - at) != 0)
            return 0;
        if (!is_id(ear->data + like->from[span], ear->data + like->to[span]))
            return 0;
        at = like->to[span];
    }
    return memcmp(ear->data + at, like->data + at, like->length - at) == 0;
}

/* The slot of the answer that this one is like, or -1. One that came by several reads has several instants: none. */
static int find_alike(const struct receiver *self, const struct ear *ear)
{
    if (ear->count != 1)
        return -1;
    for (int slot = 0; slot < MOST_LIKENESSES; slot++) {
        if (is_like(ear, &self->likenesses[slot]))
            return slot;
    }
    return -1;
}

/* Put a whole answer down. 0, or -ENOMEM. */
static int put_down(struct receiver *self, const struct ear *ear, int64_t end_ns, int is_stamped)
{
    int slot = find_alike(self, ear);
    if (slot >= 0) {
        struct alike *to = (struct alike *)grow(&self->alike, sizeof *to);
        if (to == NULL)
            return -ENOMEM;
        const struct exchange *now = &ear->now;
        *to = (struct alike){ear->stream, now->request, slot, now->scheduled_ns, now->sent_ns, end_ns, is_stamped};
        return 0;
    }
    size_t readings = ear->count * sizeof *ear->readings, padded = (ear->length + 7) & ~(size_t)7;
    unsigned char *to = grow(&self->ended, sizeof(struct ended) + readings + padded);
    if (to == NULL)
        return -ENOMEM;
    *(struct ended *)to = (struct ended){ear->stream, ear->now, (int64_t)ear->count, (int64_t)ear->length};
    memcpy(to + sizeof(struct ended), ear->readings, readings);
    memcpy(to + sizeof(struct ended) + readings, ear->data, ear->length);
    return 0;
}

/* The instant of the last read on the monotonic clock: the kernel's, if it can be. Python believes the kernel only where
 * it stamped every read of an answer; so does this. */
static int64_t end_of(const struct receiver *self, const struct ear *ear, int *is_stamped)
{
    const struct reading *last = &ear->readings[ear->count - 1];
    for (const struct reading *one = ear->readings; one <= last; one++) {
        if (one->stamp_ns == 0)
            return last->at_ns;
    }
    int64_t came_ns = last->stamp_ns - self->offset_ns;
    if (self->was_set || came_ns > last->at_ns + MOST_AHEAD_NS || came_ns < ear->now.sent_ns - MOST_AHEAD_NS)
        return last->at_ns;
    *is_stamped = 1;
    return came_ns < last->at_ns ? came_ns : last->at_ns;
}

/* Send the next request; without one the stream is free, and what did not leave whole is Python's to go on with. */
static enum outcome send_next(struct receiver *self, struct ear *ear, int fd, int64_t end_ns)
{
    ear->length = ear->count = ear->walked = 0;
    ear->tail = 0;
    ear->now = (struct exchange){.request = receiver_take_next(self), .scheduled_ns = end_ns, .read_ns = self->read_ns,
                                 .offset_ns = self->offset_ns};
    if (ear->now.request < 0) {
        ear->listens = 0;
        return LOOK;
    }
    ear->begun++;
    uint64_t length = (uint64_t)self->lengths[ear->now.request];
    const unsigned char *body = self->bodies + self->offsets[ear->now.request];
    size_t head = self->head_length;
    head += (size_t)snprintf(self->head + head, 32, "%llu\r\n\r\n", (unsigned long long)length);
    struct iovec parts[2] = {{self->head, head}, {(void *)body, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ear->now.sent_ns = now_ns();
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    ear->now.sent = sent < 0 && errno == EAGAIN ? 0 : sent;
    ear->listens = sent == (ssize_t)(head + length);
    return ear->listens ? GOES_ON : LOOK;
}

enum outcome relay(struct receiver *self, struct ear *ear, int fd)
{
    switch (walk_answer(self, ear)) {
    case MORE:
        return GOES_ON;
    case ODD:
        return LOOK;
    case WHOLE:
        break;
    }
    int is_stamped = 0;
    int64_t end_ns = end_of(self, ear, &is_stamped);
    if (put_down(self, ear, end_ns, is_stamped) < 0)
        return LOOK;
    self->relayed++;
    return send_next(self, ear, fd, end_ns);
}
