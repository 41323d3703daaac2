/* Receives streamed answers without waking Python for every read.
 *
 * A descriptor that is started is read here as soon as it is readable. Its receive buffer holds the bytes, and for each
 * read the kernel's timestamp and this process's clock. The caller is asked to handle the descriptor when the received
 * bytes end in an empty line (as every chunked body does), and in every case that is not a plain read. This is plain C
 * without Python's headers; receiving.py loads it. The caller opens, registers with epoll, and closes the descriptors.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

/* receiving.py repeats MAX_EVENTS and reads struct reading and struct received from memory: change both together. */
#define MAX_EVENTS 256
#define READ_BYTES 16384
#define MAX_IDLE_BUFFER_BYTES (1 << 20) /* A larger buffer is freed when its descriptor is released. */
#define MAX_WAIT_NS 10000000            /* Return to Python at least this often while data arrives: it measures rates. */
#define MIN_COALESCE_NS 100000
#define EMPTY_LINE 0x0D0A0D0Au

struct reading {
    int64_t end;      /* Length of the buffer after this read. */
    int64_t at_ns;    /* CLOCK_MONOTONIC after the read. */
    int64_t stamp_ns; /* The kernel's receive timestamp on CLOCK_REALTIME; 0: no timestamp. */
};

struct receive_buffer {
    unsigned char *data;
    size_t length, capacity, max_bytes;
    struct reading *readings;
    size_t reading_count, reading_capacity;
    uint32_t tail; /* The last four bytes received, the last byte in the lowest bits. */
    int is_started;
};

struct receiver {
    struct receive_buffer *buffers; /* Indexed by file descriptor. */
    size_t size;
};

struct received {
    const unsigned char *data;
    uint64_t length;
    const struct reading *readings;
    uint64_t reading_count;
};

enum outcome { KEEP_READING, RETURN_TO_CALLER };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct receiver *receiver_new(void)
{
    return calloc(1, sizeof(struct receiver));
}

static void free_buffer(struct receive_buffer *buffer)
{
    free(buffer->data);
    free(buffer->readings);
    memset(buffer, 0, sizeof *buffer);
}

void receiver_free(struct receiver *self)
{
    for (size_t fd = 0; fd < self->size; fd++)
        free_buffer(&self->buffers[fd]);
    free(self->buffers);
    free(self);
}

/* Read fd from now on; tail: the last four bytes received before, as in receive_buffer. Returns 0, or -ENOMEM. */
int receiver_start(struct receiver *self, int fd, uint32_t tail, uint64_t max_bytes)
{
    if ((size_t)fd >= self->size) {
        size_t size = (size_t)fd + 64;
        struct receive_buffer *buffers = realloc(self->buffers, size * sizeof *buffers);
        if (buffers == NULL)
            return -ENOMEM;
        memset(buffers + self->size, 0, (size - self->size) * sizeof *buffers);
        self->buffers = buffers;
        self->size = size;
    }
    struct receive_buffer *buffer = &self->buffers[fd];
    buffer->length = buffer->reading_count = 0;
    buffer->tail = tail;
    buffer->max_bytes = max_bytes;
    buffer->is_started = 1;
    return 0;
}

/* Stop reading fd and return its buffer, which stays valid until fd is started again or released. */
void receiver_stop(struct receiver *self, int fd, struct received *received)
{
    struct receive_buffer *buffer = &self->buffers[fd];
    buffer->is_started = 0;
    *received = (struct received){buffer->data, buffer->length, buffer->readings, buffer->reading_count};
}

/* Stop reading fd, which is about to be closed, and free its buffer if that is large. */
void receiver_release(struct receiver *self, int fd)
{
    if ((size_t)fd >= self->size)
        return;
    self->buffers[fd].is_started = 0;
    if (self->buffers[fd].capacity > MAX_IDLE_BUFFER_BYTES)
        free_buffer(&self->buffers[fd]);
}

static int make_room(struct receive_buffer *buffer)
{
    if (buffer->capacity - buffer->length < READ_BYTES) {
        size_t capacity = buffer->capacity ? 2 * buffer->capacity : 4 * READ_BYTES;
        unsigned char *data = realloc(buffer->data, capacity);
        if (data == NULL)
            return 0;
        buffer->data = data;
        buffer->capacity = capacity;
    }
    if (buffer->reading_count == buffer->reading_capacity) {
        size_t capacity = buffer->reading_capacity ? 2 * buffer->reading_capacity : 256;
        struct reading *readings = realloc(buffer->readings, capacity * sizeof *readings);
        if (readings == NULL)
            return 0;
        buffer->readings = readings;
        buffer->reading_capacity = capacity;
    }
    return 1;
}

static int64_t timestamp_of(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    if (control == NULL || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_TIMESTAMPNS)
        return 0;
    struct timespec stamp;
    memcpy(&stamp, CMSG_DATA(control), sizeof stamp);
    return (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec;
}

/* Read once. The caller handles the end of input, errors, an empty line at the end, too many bytes and lack of memory. */
static enum outcome read_once(struct receive_buffer *buffer, int fd)
{
    if (!make_room(buffer))
        return RETURN_TO_CALLER;
    union {
        char space[CMSG_SPACE(sizeof(struct timespec))];
        struct cmsghdr aligned;
    } control;
    struct iovec into = {buffer->data + buffer->length, READ_BYTES};
    struct msghdr message = {
        .msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    ssize_t count = recvmsg(fd, &message, MSG_DONTWAIT);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? KEEP_READING : RETURN_TO_CALLER;
    if (count == 0)
        return RETURN_TO_CALLER;
    buffer->length += (size_t)count;
    buffer->readings[buffer->reading_count++] =
        (struct reading){(int64_t)buffer->length, now_ns(), timestamp_of(&message)};
    const unsigned char *end = buffer->data + buffer->length;
    for (const unsigned char *byte = end - (count < 4 ? count : 4); byte < end; byte++)
        buffer->tail = buffer->tail << 8 | *byte;
    return buffer->length > buffer->max_bytes || buffer->tail == EMPTY_LINE ? RETURN_TO_CALLER : KEEP_READING;
}

/* Sleep so that several reads share one wake-up, but at most half of the time to the next deadline. */
static void coalesce(int64_t ns, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns ? deadline_ns - now_ns() : 2 * ns;
    if (left_ns < 2 * MIN_COALESCE_NS)
        return;
    int64_t sleep_ns = left_ns < 2 * ns ? left_ns / 2 : ns;
    struct timespec span = {sleep_ns / 1000000000, sleep_ns % 1000000000};
    nanosleep(&span, NULL);
}

/* Wait for events that the caller has to handle, reading the started descriptors meanwhile.
 *
 * timeout_ns: how long to wait for an event or a read, -1: without limit; every read restarts it. coalesce_ns: sleep
 * this long before each poll, less if deadline_ns is near; deadline_ns 0: there is no deadline. out: the number of reads
 * that the caller need not handle, then for each event the descriptor | mask << 32; room for MAX_EVENTS + 1 numbers.
 * Returns the number of events, or -errno.
 */
int receiver_wait(struct receiver *self, int epoll_fd, int64_t timeout_ns, int64_t coalesce_ns, int64_t deadline_ns,
                  uint64_t *out)
{
    struct epoll_event ready[MAX_EVENTS];
    int timeout_ms = timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000);
    int64_t until_ns = 0;
    int events = 0;
    out[0] = 0;
    for (;;) {
        if (coalesce_ns)
            coalesce(coalesce_ns, deadline_ns);
        int count = epoll_wait(epoll_fd, ready, MAX_EVENTS, timeout_ms);
        if (count < 0 && errno != EINTR)
            return -errno;
        for (int index = 0; index < count; index++) {
            int fd = ready[index].data.fd;
            struct receive_buffer *buffer = (size_t)fd < self->size ? &self->buffers[fd] : NULL;
            if (buffer != NULL && buffer->is_started && ready[index].events == EPOLLIN &&
                read_once(buffer, fd) == KEEP_READING)
                out[0]++;
            else
                out[1 + events++] = (uint64_t)ready[index].events << 32 | (uint32_t)fd;
        }
        if (events || count <= 0 || timeout_ns == 0)
            return events;
        int64_t at_ns = now_ns();
        if (until_ns == 0)
            until_ns = at_ns + MAX_WAIT_NS;
        if (at_ns >= until_ns)
            return events;
    }
}
