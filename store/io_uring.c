/*
 * store/io_uring.c -- the POSIX back end with another queue: writes go into a ring of the kernel.
 *
 * A transfer is one request under way: it remembers how much of the request is written. The kernel
 * may write less than it was asked to, or nothing at all for now; the transfer is then started
 * again for the rest.
 *
 * Invariants:
 * 1. A transfer has at most one entry in the ring, and there are no more transfers than the ring
 * has entries: there is always an entry for a transfer that starts.
 * 2. The kernel may use a request's bytes until its completion is taken from the ring. So a queue
 *    is closed only after every completion was taken.
 * 3. An entry that the kernel does not take at once stays in the ring and is offered again by
 * whoever waits next.
 * 4. A queue whose ring was refused writes at submit, as the POSIX queue does.
 *
 * Flags and operations are those of Linux 5.6. Threads: a queue belongs to one thread at a time.
 */
#include "store/io_uring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "format/error.h"
#include "store/io_posix.h"

/* An entry's size has 32 bits, and the kernel cuts a write short of 2 GiB anyway. */
#define ENTRY_SIZE_MAX ((size_t)1 << 30)

#define QUEUE_NAME     "queue of writes"

struct transfer {
	struct cairn_write_request *request;
	size_t done;
	struct transfer *next; /* among the idle ones */
};

struct uring_queue {
	struct cairn_queue base;
	bool has_ring;
	struct io_uring ring;
	struct transfer *transfers;
	struct transfer *idle;
	size_t under_way;
	struct cairn_finished finished;
};

struct uring_io {
	struct cairn_io base;
	struct cairn_io_ops ops;
};

static int uring_queue_open(struct cairn_io *io, unsigned depth, struct cairn_queue **queue)
{
	*queue = NULL;
	if (depth == 0)
		depth = 1;
	struct uring_queue *opened = calloc(1, sizeof *opened);
	struct transfer *transfers = calloc(depth, sizeof *transfers);
	if (!opened || !transfers) {
		free(opened);
		free(transfers);
		return cairn_error_system(-ENOMEM, QUEUE_NAME, "malloc");
	}
	opened->base.io = io;
	opened->transfers = transfers;
	for (unsigned i = 0; i < depth; i++) {
		transfers[i].next = opened->idle;
		opened->idle = &transfers[i];
	}
	opened->has_ring = io_uring_queue_init(depth, &opened->ring, 0) == 0;
	*queue = &opened->base;
	return 0;
}

/* Puts the rest of the transfer into the ring. */
static void start(struct uring_queue *queue, struct transfer *transfer)
{
	const struct cairn_write_request *request = transfer->request;
	size_t rest = request->size - transfer->done;
	struct io_uring_sqe *entry = io_uring_get_sqe(&queue->ring);
	assert(entry);
	io_uring_prep_write(entry, cairn_io_posix_descriptor(request->file),
	    (const uint8_t *)request->data + transfer->done,
	    (unsigned)(rest < ENTRY_SIZE_MAX ? rest : ENTRY_SIZE_MAX),
	    request->offset + transfer->done);
	io_uring_sqe_set_data(entry, transfer);
	(void)io_uring_submit(&queue->ring); /* invariant 3 */
}

static void finish(struct uring_queue *queue, struct transfer *transfer, int result)
{
	struct cairn_write_request *request = transfer->request;
	request->result =
	    result ? cairn_error_system(result, request->file->path, "io_uring write") : 0;
	cairn_finished_push(&queue->finished, request);
	transfer->next = queue->idle;
	queue->idle = transfer;
	queue->under_way--;
}

/* `written` is what the kernel says of the transfer: a number of bytes or -errno. */
static void advance(struct uring_queue *queue, struct transfer *transfer, int written)
{
	/* Cancelled: by the kernel, when the thread that submitted it ends. */
	bool again = written == -EINTR || written == -EAGAIN || written == -ECANCELED;
	if (written > 0)
		transfer->done += (size_t)written;
	if (again || (written > 0 && transfer->done < transfer->request->size))
		start(queue, transfer);
	else if (written == 0) /* no progress and no reason: do not ask again for ever */
		finish(queue, transfer, -EIO);
	else
		finish(queue, transfer, written < 0 ? written : 0);
}

/*
 * What the ring says of the transfer that was completed: a number of bytes or -errno. By itself,
 * because tests/tsan.supp names what reads the memory of the ring.
 */
static int read_completion(const struct io_uring_cqe *completion, struct transfer **transfer)
{
	*transfer = io_uring_cqe_get_data(completion);
	return completion->res;
}

/* Waits for one completion. Fails only when the ring itself does. */
static int take_completion(struct uring_queue *queue)
{
	struct io_uring_cqe *completion;
	while (io_uring_peek_cqe(&queue->ring, &completion)) {
		int result = io_uring_submit_and_wait(&queue->ring, 1);
		if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY)
			return cairn_error_system(result, QUEUE_NAME, "io_uring_enter");
	}
	struct transfer *transfer;
	int written = read_completion(completion, &transfer);
	io_uring_cqe_seen(&queue->ring, completion);
	advance(queue, transfer, written);
	return 0;
}

static int uring_queue_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	struct uring_queue *q = (struct uring_queue *)queue;
	int result = cairn_finished_reserve(&q->finished, q->finished.count + q->under_way + 1);
	if (result)
		return result;
	if (!q->has_ring || request->size == 0) {
		request->result = cairn_io_posix_ops.write(
		    request->file, request->data, request->size, request->offset);
		cairn_finished_push(&q->finished, request);
		return 0;
	}
	while (!result && !q->idle)
		result = take_completion(q);
	if (result)
		return result;
	struct transfer *transfer = q->idle;
	q->idle = transfer->next;
	*transfer = (struct transfer){.request = request};
	q->under_way++;
	start(q, transfer);
	return 0;
}

static int uring_queue_wait(struct cairn_queue *queue, struct cairn_write_request **request)
{
	struct uring_queue *q = (struct uring_queue *)queue;
	int result = 0;
	while (!result && !q->finished.count && q->under_way)
		result = take_completion(q);
	*request = result ? NULL : cairn_finished_pop(&q->finished);
	return result;
}

static void uring_queue_close(struct cairn_queue *queue)
{
	struct uring_queue *q = (struct uring_queue *)queue;
	if (!q)
		return;
	while (q->under_way && !take_completion(q))
		;
	if (q->has_ring)
		io_uring_queue_exit(&q->ring);
	cairn_finished_release(&q->finished);
	free(q->transfers);
	free(q);
}

/* Whether the kernel gives rings that can write: 0 or -errno. */
static int try_ring(void)
{
	struct io_uring ring;
	int result = io_uring_queue_init(1, &ring, 0);
	if (result)
		return result;
	struct io_uring_probe *probe = io_uring_get_probe_ring(&ring);
	if (!probe || !io_uring_opcode_supported(probe, IORING_OP_WRITE))
		result = -ENOSYS;
	if (probe)
		io_uring_free_probe(probe);
	io_uring_queue_exit(&ring);
	return result;
}

int cairn_io_uring_open(struct cairn_io **io)
{
	*io = NULL;
	int result = try_ring();
	if (result)
		return result;
	struct uring_io *opened = malloc(sizeof *opened);
	if (!opened)
		return -ENOMEM;
	opened->ops = cairn_io_posix_ops;
	opened->ops.name = "io_uring";
	opened->ops.queue_open = uring_queue_open;
	opened->ops.queue_submit = uring_queue_submit;
	opened->ops.queue_wait = uring_queue_wait;
	opened->ops.queue_close = uring_queue_close;
	opened->base.ops = &opened->ops;
	*io = &opened->base;
	return 0;
}

void cairn_io_uring_close(struct cairn_io *io)
{
	free(io);
}
