/*
 * Ringpost for C: nodes, channels of messages, byte streams, shared memory, ranks and collective
 * operations, over RDMA, or TCP where there is no RDMA device.
 *
 * This file is generated from the comments of `src/rp`: do not change it by hand.
 *
 * Handles. What a function returns as a pointer is no address: it is only given to other functions.
 * Each handle is closed by a function of its kind. NULL, a handle that is closed and a handle of
 * another kind are failures, and never crash the program.
 *
 * Errors. A function that fails returns -1, or NULL; rp_last_error() says why, and rp_last_code()
 * what kind of failure it is, both for the calling thread.
 *
 * Threads. Every function may be called by any thread at any time; two threads may use one handle.
 * A call that waits ends with a failure when another thread closes the handle. A program that forks
 * calls nothing of this library in the child unless it executes another program there.
 *
 * Texts are UTF-8 and end with a null.
 */

#ifndef RINGPOST_H
#define RINGPOST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// A failure: an argument is wrong, such as NULL, a closed handle or one of another kind.
#define RP_INVALID 1

// A failure: the bytes do not fit into the buffer, or into the limits.
#define RP_TOO_LARGE 2

// A failure: the call would have to wait, and was told not to.
#define RP_WOULD_BLOCK 3

// A failure: the time is over.
#define RP_TIMED_OUT 4

// A failure: the peer has closed in order, and nothing is missing.
#define RP_ENDED 5

// Any other failure: rp_last_error says which.
#define RP_FAILED 6

// A failure: a defect of this library.
#define RP_DEFECT 7

// A failure: no listener has this name, now. Its program may come up in a moment.
#define RP_NOT_FOUND 8

// A failure: a rank of the world has died, or the world was revoked. rp_world_shrink goes on.
#define RP_RANK_DIED 9

// A failure: the link between two nodes was lost, and perhaps messages with it. Connect again.
#define RP_LINK_LOST 10

// Access by rp_remote_read.
#define RP_READ 1

// Access by rp_remote_write.
#define RP_WRITE 2

// Access by rp_remote_fetch_add and rp_remote_compare_exchange.
#define RP_ATOMIC 4

// Any rank, or any tag, for rp_world_recv; any number, for rp_world_join.
#define RP_ANY -1

// The numbers of rp_world_all_reduce: int32_t.
#define RP_INT32 1

// The numbers of rp_world_all_reduce: int64_t.
#define RP_INT64 2

// The numbers of rp_world_all_reduce: float.
#define RP_FLOAT 3

// The numbers of rp_world_all_reduce: double.
#define RP_DOUBLE 4

// The reduction of rp_world_all_reduce: the sum; whole numbers wrap around.
#define RP_SUM 1

// The reduction of rp_world_all_reduce: the least.
#define RP_MIN 2

// The reduction of rp_world_all_reduce: the greatest.
#define RP_MAX 3

// One end of a channel. Opaque.
typedef struct rp_channel rp_channel;

// Accepts channels, or streams, under a name of a node. Opaque.
typedef struct rp_listener rp_listener;

// A node: the place of this program among others. Opaque.
typedef struct rp_node rp_node;

// Memory of this node that can be shared. Opaque.
typedef struct rp_region rp_region;

// Access to a region, perhaps of another node. Opaque.
typedef struct rp_remote rp_remote;

// One end of a byte stream. Opaque.
typedef struct rp_stream rp_stream;

// A world of ranks, as one of them sees it. Opaque.
typedef struct rp_world rp_world;

// Where a message came from.
typedef struct rp_status {
    // The rank that sent it.
    int source;
    // Its tag.
    int tag;
} rp_status;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library, such as "0.1.0".
const char *rp_version(void);

// Returns why the last call of this thread that failed did so; "" if none has. The text is valid
// until the next failure of this thread.
const char *rp_last_error(void);

// Returns what kind of failure that was: one of the RP_ numbers; 0 if no call has failed.
int rp_last_code(void);

// Starts a node with this name that listens at `host:port`, where port 0 takes a free one. With
// NULL for the name one is invented. A node that does not listen reaches only itself: for that,
// give NULL for the address; a client of other nodes is made by rp_node_client.
//
// The variables RINGPOST_SECRET, RINGPOST_SEEDS and others of the environment count, too.
// Without a secret the address has to be one of loopback.
struct rp_node *rp_node_start(const char *name, const char *address);

// Starts a node that does not listen, with an invented name, and links it to the node at
// `host:port`, whose name is written to `peer` with its final null, unless that is NULL. A name
// has up to 64 bytes. Tries for 5 s, or for 60 s if the host gives no answer.
//
// No node can dial it. So when its process is killed, other nodes find it down after 8 s, and not
// at once; give the other nodes a smaller RINGPOST_DOWN_AFTER, or call rp_node_start with an
// address and rp_node_connect where that is too long.
struct rp_node *rp_node_client(const char *address, char *peer, size_t peer_len);

// Links a node to the one at `host:port`, whose name is written to `peer`; as rp_node_client. This
// fails for a node without a network, which rp_node_start makes without an address.
int rp_node_connect(struct rp_node *node, const char *address, char *peer, size_t peer_len);

// Waits until `count` other nodes are linked. Below 0 the time is without end.
int rp_node_ready(struct rp_node *node, size_t count, int timeout_ms);

// Writes the name of a node and a final null to a buffer of `len` bytes. Returns its length.
int rp_node_name(struct rp_node *node, char *name, size_t len);

// Writes the address at which others reach a node, `host:port`, as rp_node_name does its name.
int rp_node_address(struct rp_node *node, char *address, size_t len);

// Ends a node in order, within this time (below 0: 5 s) and 4 s more. Messages that were sent are
// handed over before. The handle is closed; handles of channels, streams and regions of the node
// stay, and their calls fail.
int rp_node_shutdown(struct rp_node *node, int timeout_ms);

// Binds a name of the node for channels: others connect to "node/name".
struct rp_listener *rp_channel_listen(struct rp_node *node, const char *name);

// Waits for the next channel. Below 0 the time is without end; with 0 it does not wait.
struct rp_channel *rp_channel_accept(struct rp_listener *listener, int timeout_ms);

// Closes a listener: its name is free again. Accepted channels and streams stay.
int rp_listener_close(struct rp_listener *listener);

// Connects to the channels at "node/name", or "name" on this node.
struct rp_channel *rp_channel_connect(struct rp_node *node, const char *path);

// Sends a message of up to 64 MiB. Waits while the peer has no room.
int rp_channel_send(struct rp_channel *channel, const void *data, size_t len);

// Receives the next message and returns its length. A longer one than `len` is a failure
// (RP_TOO_LARGE) and stays. After the last message the end of the peer is a failure: RP_ENDED if
// it closed in order. Below 0 the time is without end.
ptrdiff_t rp_channel_recv(struct rp_channel *channel, void *data, size_t len, int timeout_ms);

// Receives the next message if it is there; otherwise it is a failure, RP_WOULD_BLOCK.
ptrdiff_t rp_channel_try_recv(struct rp_channel *channel, void *data, size_t len);

// Returns a descriptor for poll and select, which can be read from while rp_channel_recv would not
// wait. Do not read from it or close it.
int rp_channel_fd(struct rp_channel *channel);

// Closes a channel: the peer receives all messages, and then the end. Calls of other threads on it
// fail.
int rp_channel_close(struct rp_channel *channel);

// Binds a name of the node for streams: others connect to "node/name".
struct rp_listener *rp_stream_listen(struct rp_node *node, const char *name);

// Waits for the next stream. Below 0 the time is without end; with 0 it does not wait.
struct rp_stream *rp_stream_accept(struct rp_listener *listener, int timeout_ms);

// Connects to the streams at "node/name", or "name" on this node.
struct rp_stream *rp_stream_connect(struct rp_node *node, const char *path);

// Reads up to `len` bytes, as soon as there is one, and returns how many; 0 at the end of what the
// peer has written. Below 0 the time is without end; with 0 it does not wait (RP_WOULD_BLOCK).
ptrdiff_t rp_stream_read(struct rp_stream *stream, void *data, size_t len, int timeout_ms);

// Writes all `len` bytes, and returns 0 when they are on their way. Waits while the peer has no
// room. After a failure some of them may have been written: the text says how many bytes of the
// stream the peer's program has certainly read.
int rp_stream_write(struct rp_stream *stream, const void *data, size_t len);

// Waits until the peer's program has read all that was written. Below 0 the time is without end.
int rp_stream_sync(struct rp_stream *stream, int timeout_ms);

// Ends the direction that writes: the peer reads the end after the last byte, and may write on.
int rp_stream_shutdown(struct rp_stream *stream);

// Closes a stream, and waits until the peer's program has read all, for so long at most; below 0,
// for 5 s. The handle is closed even after a failure, and written bytes are on their
// way.
// Bytes that were not read here are an error for the peer. Calls of other threads on it fail.
int rp_stream_close(struct rp_stream *stream, int timeout_ms);

// Makes a region of `len` bytes, all zero.
struct rp_region *rp_region_new(struct rp_node *node, size_t len);

// Shares a region under a name of its node: others open it as "node/name". `access` is a sum of
// RP_READ, RP_WRITE and RP_ATOMIC. It is shared under one name at a time.
int rp_region_share(struct rp_region *region, const char *name, int access);

// Ends the access of all, also of operations under way; the name is free again. When it returns
// nothing reaches the region any more but this program.
int rp_region_revoke(struct rp_region *region);

// Writes bytes of a region of this program.
int rp_region_set(struct rp_region *region, size_t offset, const void *data, size_t len);

// Reads bytes of a region of this program.
int rp_region_get(struct rp_region *region, size_t offset, void *data, size_t len);

// Closes a region of this program, and revokes it.
int rp_region_close(struct rp_region *region);

// Opens the region that is shared as "node/name", or "name" on this node.
struct rp_remote *rp_remote_open(struct rp_node *node, const char *path);

// Returns the number of bytes of a shared region.
ptrdiff_t rp_remote_len(struct rp_remote *remote);

// Reads bytes of a shared region.
int rp_remote_read(struct rp_remote *remote, size_t offset, void *data, size_t len);

// Writes bytes of a shared region. After 0 they are there: a message that is sent next finds
// them.
int rp_remote_write(struct rp_remote *remote, size_t offset, const void *data, size_t len);

// Adds to the word of 8 bytes at `offset`, a multiple of 8, in one step for all that do so, and
// writes its value before to `before`, unless that is NULL.
int rp_remote_fetch_add(struct rp_remote *remote, size_t offset, uint64_t number, uint64_t *before);

// Makes the word of 8 bytes at `offset`, a multiple of 8, `wanted` if it is `expected`, in one
// step for all that do so. Returns 1 if it did and 0 if not, and writes its value before to
// `before`, unless that is NULL.
int rp_remote_compare_exchange(struct rp_remote *remote,
                               size_t offset,
                               uint64_t expected,
                               uint64_t wanted,
                               uint64_t *before);

// Closes a shared region: this program's access, and no one else's.
int rp_remote_close(struct rp_remote *remote);

// Joins the world of this name on a node: it begins when `size` nodes have joined that know each
// other, in any order. `number` is the number of this rank, 0 to size - 1, or RP_ANY: then the
// order of arrival numbers the ranks. When it returns each rank is linked with each other one.
// Waits so long at most (below 0: 60 s); then RP_TIMED_OUT says which ranks are missing.
struct rp_world *rp_world_join(struct rp_node *node,
                               const char *name,
                               size_t size,
                               int number,
                               int timeout_ms);

// Joins the world that the environment describes, as `ringpost run -n 4 PROGRAM` sets it, on a
// node that is made for it: RINGPOST_RANK, RINGPOST_SIZE, RINGPOST_HOSTS and RINGPOST_JOB. Waits
// for 60 s at most.
struct rp_world *rp_world_from_env(void);

// Returns the number of this rank, 0 to size - 1.
int rp_world_rank(struct rp_world *world);

// Returns the number of ranks, including ranks that have died or left.
int rp_world_size(struct rp_world *world);

// Sends a message of up to 1 GiB to a rank, which may be this one. Returns when it is on its way,
// or waits there: up to 80 MiB of this rank's messages do, and then it waits until that rank
// receives. `tag` is 0 or more. Ranks in Rust receive it as `u8`, and send such messages.
int rp_world_send(struct rp_world *world, int to, int tag, const void *data, size_t len);

// Receives the first message of this rank and tag, each of which may be RP_ANY, and returns its
// length. Messages of one rank come in the order in which they were sent. A longer one than `len`
// is a failure (RP_TOO_LARGE) and stays. `status` says where it came from, unless that is NULL.
// Below 0 the time is without end; with 0 it does not wait (RP_WOULD_BLOCK).
ptrdiff_t rp_world_recv(struct rp_world *world,
                        int source,
                        int tag,
                        void *data,
                        size_t len,
                        int timeout_ms,
                        struct rp_status *status);

// Waits until all ranks have called it.
//
// All ranks call the same collective operations of a world in the same order, each with the same
// root, length, type and reduction. Otherwise it fails on all of them.
int rp_world_barrier(struct rp_world *world);

// Copies the `len` bytes of the rank `root` to all ranks.
int rp_world_broadcast(struct rp_world *world, int root, void *data, size_t len);

// Copies the `len` bytes at `all + rank * len` of the rank `root` to `mine` of each rank. The
// others give NULL for `all`.
int rp_world_scatter(struct rp_world *world, int root, const void *all, void *mine, size_t len);

// Copies the `len` bytes of each rank to `all + rank * len` of the rank `root`. The others give
// NULL for `all`.
int rp_world_gather(struct rp_world *world, int root, const void *mine, void *all, size_t len);

// Copies the `len` bytes of each rank to `all + rank * len` of all ranks.
int rp_world_all_gather(struct rp_world *world, const void *mine, void *all, size_t len);

// Copies the `len` bytes at `mine + i * len` to `all + rank * len` of the rank `i`, for each `i`.
int rp_world_all_to_all(struct rp_world *world, const void *mine, void *all, size_t len);

// Reduces `length` numbers at `data` of all ranks, each with those at its place, and writes the
// outcome over them on all ranks. `kind` is their type, such as RP_DOUBLE, and `reduction` is
// RP_SUM, RP_MIN or RP_MAX.
int rp_world_all_reduce(struct rp_world *world, void *data, size_t length, int kind, int reduction);

// Makes a world of the living ranks, in their order, after one has died (RP_RANK_DIED). All living
// ranks call it; calls on the old world that wait on any of them end. The old handle stays until
// rp_world_leave closes it.
struct rp_world *rp_world_shrink(struct rp_world *world);

// Leaves a world: sent messages go out, and waits of other ranks for this one fail (RP_ENDED). The
// handle is closed; calls of other threads on it fail. It ends a node that rp_world_from_env made.
int rp_world_leave(struct rp_world *world);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RINGPOST_H */
