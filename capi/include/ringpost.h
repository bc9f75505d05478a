/*
 * Ringpost for C: nodes, channels of messages, byte streams and shared memory, over RDMA, or TCP
 * where there is no RDMA device.
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

// Access by rp_remote_read.
#define RP_READ 1

// Access by rp_remote_write.
#define RP_WRITE 2

// Access by rp_remote_fetch_add and rp_remote_compare_exchange.
#define RP_ATOMIC 4

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
// has up to 64 bytes. Tries for 5 s.
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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RINGPOST_H */
