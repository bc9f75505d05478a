/*
 * Messages to up to 64 peers by their index, shared memory and collectives, over RDMA, or TCP where
 * there is no RDMA device. The names are those of the C library `rdma_lib`, and programs that were
 * written for it compile as they are.
 *
 * A server listens; clients connect to it. Each context has a node of Ringpost of its own.
 *
 * Errors. A call that fails returns -1, or NULL, and rdma_get_error() says why. Null, a context
 * that was cleaned up, an index without a peer and sizes that are too large are failures, and never
 * crash the program.
 *
 * Threads. Every function may be called by any thread at any time. Sends to one peer are in the
 * order of the calls. A call that waits ends with a failure when another thread cleans the context
 * up. A program that forks calls nothing of this library in the child unless it executes another
 * program there.
 *
 * Addresses. Without a secret only addresses of loopback are allowed. For others set RINGPOST_SECRET
 * in the environment of all programs, to what `openssl rand -hex 32` prints.
 */
#ifndef RINGPOST_RDMA_LIB_H
#define RINGPOST_RDMA_LIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAX_PEERS 64     /* peers of a context at a time */
#define MAX_WR 128       /* rdma_isend to one peer that are under way; messages that wait for it */
#define CQ_DEPTH 256     /* kept for programs that name it: requests that are over have no bound */
#define BUFFER_SIZE 4096 /* a size for buffers: the library has no such bound */

typedef struct rdma_context rdma_context;
typedef struct rdma_request rdma_request;

/*
 * Makes a context. `ip` is an address of this machine: a server listens at `ip` and `port`, where
 * port 0 takes a free one. A client ignores `port`, and listens at a free one once it connects (on
 * loopback if there is no secret): so servers know at once when its process is killed. The memory
 * that peers may read and write has `buf_size` bytes, all zero. NULL: the address is not of this
 * machine, the port is taken, the size is too large.
 */
rdma_context *rdma_init(const char *ip, int port, size_t buf_size, bool is_server);

/* Ends a context, within 5 s: peers receive what was sent, and then the end. NULL is let pass. */
void rdma_cleanup(rdma_context *ctx);

/*
 * Connects to a server and returns its index, from 0 on. Tries for 5 s, or for 60 s if the host
 * gives no answer.
 */
int rdma_connect_peer(rdma_context *ctx, const char *peer_ip, int peer_port);

/* Waits for the next client and returns its index: the lowest that is free, from 0 on. */
int rdma_accept_peer(rdma_context *ctx);

/* Ends the connection to a peer, which receives what was sent. Its index is free then. */
int rdma_disconnect_peer(rdma_context *ctx, int peer_idx);

/*
 * Sends a message of up to 64 MiB. It waits while the peer has no room; 0 says that the message is
 * on its way and that `data` may be changed.
 */
int rdma_send(rdma_context *ctx, int peer_idx, const void *data, size_t len);

/*
 * Waits for the next message of a peer and returns its length. A message that is longer than
 * `max_len` is a failure; it stays, and the next call may receive it. When the peer has ended, its
 * messages are received first.
 */
int rdma_recv(rdma_context *ctx, int peer_idx, void *data, size_t max_len);

/* Sends a message to all peers, which receive it with rdma_recv. */
int rdma_broadcast(rdma_context *ctx, const void *data, size_t len);

/*
 * Sends `msg_size` bytes to each peer and receives as many from each, which calls it, too. The
 * bytes of the peer with index i go to `recv_buf + i * msg_size`; places of indexes without a peer
 * stay as they are. A server has its clients in the order of their indexes, and a client has the
 * server. What peers send by rdma_send meanwhile is received by rdma_recv later.
 */
int rdma_sequential_alltoall(rdma_context *ctx, const void *send_buf, void *recv_buf,
                             size_t msg_size);

/*
 * Returns why the last call of this thread that failed did so; "" if none has. The text is valid
 * until the next failure of this thread.
 */
const char *rdma_get_error(void);

/* What follows the first version of the library only announced. */

/*
 * Returns a descriptor for poll and select. It can be read from while there is something to take:
 * a client to accept, a message to receive, a peer that has ended and was not disconnected, or a
 * request that is over and was not tested. Do not read from it or close it.
 */
int rdma_fd(rdma_context *ctx);

/* Returns the port of a server, also where rdma_init took a free one. */
int rdma_port(rdma_context *ctx);

/* Returns one more than the highest index of a peer: 0 where there is none. */
int rdma_peer_count(rdma_context *ctx);

/*
 * Writes to the memory of a peer, or reads from it, without a call of its program. After 0 all is
 * written, and what is sent to the peer next finds it so.
 */
int rdma_write(rdma_context *ctx, int peer_idx, size_t offset, const void *data, size_t len);
int rdma_read(rdma_context *ctx, int peer_idx, size_t offset, void *data, size_t len);

/*
 * The same for this context's own memory, which is read and written by copies, as peers may write it
 * at any time. A client has it from its first rdma_connect_peer on.
 */
int rdma_memory_set(rdma_context *ctx, size_t offset, const void *data, size_t len);
int rdma_memory_get(rdma_context *ctx, size_t offset, void *data, size_t len);

/*
 * Begins to send or to receive a message. rdma_isend copies the message, so that `data` may be
 * changed at once. What rdma_irecv receives is copied to `data` by the rdma_test or rdma_wait that
 * ends the request: until then `data` stays. Receives of one peer take its messages in the order in
 * which they were called.
 */
rdma_request *rdma_isend(rdma_context *ctx, int peer_idx, const void *data, size_t len);
rdma_request *rdma_irecv(rdma_context *ctx, int peer_idx, void *data, size_t max_len);

/*
 * Returns 0 while the request is under way, and 1 when it is over: then `*result` is its number of
 * bytes, or -1 if it failed, and the request is gone. `result` may be NULL.
 */
int rdma_test(rdma_request *request, int *result);

/*
 * Waits until the request is over and returns its number of bytes, or -1; then it is gone. When
 * `timeout_ms` are over it returns -2, and the request stays; below 0 it waits for ever.
 */
int rdma_wait(rdma_request *request, int timeout_ms);

/*
 * Gives a request up, and it is gone. A message that it has received is the next one of its peer
 * again; one that it sends is sent.
 */
int rdma_cancel(rdma_request *request);

/*
 * Collectives of a server and all its clients: each calls it, and returns when it has its outcome.
 * The server has position 0, and its peer with index i position i + 1. A client takes part in those
 * of its only server. Where one has called another collective, or with another size, and where a
 * peer has ended, it is a failure for all.
 */
enum rdma_reduction { RDMA_SUM = 1, RDMA_MIN = 2, RDMA_MAX = 3 };

/* Returns when all have called it. */
int rdma_barrier(rdma_context *ctx);

/*
 * Copies the `msg_size` bytes of each to the server's `recv_buf + position * msg_size`. Clients give
 * NULL for `recv_buf`.
 */
int rdma_gather(rdma_context *ctx, const void *send_buf, void *recv_buf, size_t msg_size);

/*
 * Copies the `msg_size` bytes at the server's `send_buf + position * msg_size` to each. Clients give
 * NULL for `send_buf`. The server's has rdma_peer_count() + 1 positions.
 */
int rdma_scatter(rdma_context *ctx, const void *send_buf, void *recv_buf, size_t msg_size);

/*
 * Copies the `msg_size` bytes of each to everybody's `recv_buf + position * msg_size`, and returns
 * the number of positions. `recv_size` is the room in bytes; positions without a peer are zero.
 */
int rdma_all_gather(rdma_context *ctx, const void *send_buf, void *recv_buf, size_t msg_size,
                    size_t recv_size);

/*
 * Reduces the numbers of all, each with those at the same place, and gives them to all. They are
 * taken in the order of the positions, so that sums of doubles are the same each time. Sums of
 * int64_t wrap around. `send_buf` and `recv_buf` may be the same.
 */
int rdma_all_reduce_double(rdma_context *ctx, int reduction, const double *send_buf,
                           double *recv_buf, size_t count);
int rdma_all_reduce_int64(rdma_context *ctx, int reduction, const int64_t *send_buf,
                          int64_t *recv_buf, size_t count);

#ifdef __cplusplus
}
#endif

#endif
