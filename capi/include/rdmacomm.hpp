// Byte streams as communicators: the C++ class RdmaCommunicator, over RDMA, or TCP where there is no
// RDMA device. Link with the library of ringpost.h.
//
// A server calls Serve once and then Accept for each client; a client calls Connect. Read returns as
// soon as there is a byte, as a socket does. All errors are thrown as RdmaCommunicatorError, which
// is a std::runtime_error with the cause. Read and Write may be called by two threads at a time.
//
// Without a secret only addresses of loopback are allowed. For others set RINGPOST_SECRET in the
// environment of all programs, to what `openssl rand -hex 32` prints.
#ifndef RINGPOST_RDMACOMM_HPP
#define RINGPOST_RDMACOMM_HPP

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "ringpost.h"

// A call of a communicator has failed.
class RdmaCommunicatorError : public std::runtime_error {
  public:
    RdmaCommunicatorError(const std::string &text, int code)
        : std::runtime_error(text), code_(code) {}

    // Returns what kind of failure it is: one of the RP_ numbers of ringpost.h.
    int code() const noexcept { return code_; }

  private:
    int code_;
};

// What two programs speak by, whatever is beneath.
class Communicator {
  public:
    virtual ~Communicator() {}

    // Listens at the address of this communicator.
    virtual void Serve() = 0;
    // Waits for the next client, and returns the communicator to it, which the caller deletes.
    virtual const Communicator *Accept() const = 0;
    // Connects to the server at the address of this communicator.
    virtual void Connect() = 0;
    // Reads up to `size` bytes, as soon as there is one, and returns how many; 0 at the end.
    virtual std::size_t Read(char *buffer, std::size_t size) = 0;
    // Writes all `size` bytes, and returns how many.
    virtual std::size_t Write(const char *buffer, std::size_t size) = 0;
    // Waits until the peer's program has read all that was written.
    virtual void Sync() = 0;
    // Ends it: the peer reads all that was written, for which this waits up to 5 s. Again, it does
    // nothing.
    virtual void Close() = 0;
};

// A communicator on a stream of Ringpost.
class RdmaCommunicator : public Communicator {
  public:
    // `ip` is an address or the name of a host, and `port` a number or a text.
    RdmaCommunicator(const std::string &ip, const std::string &port)
        : address_(Address(ip, port)) {}
    RdmaCommunicator(const std::string &ip, int port)
        : address_(Address(ip, std::to_string(port))) {}
    RdmaCommunicator(const char *ip, const char *port) : address_(Address(Text(ip), Text(port))) {}
    RdmaCommunicator(const char *ip, int port)
        : address_(Address(Text(ip), std::to_string(port))) {}

    RdmaCommunicator(const RdmaCommunicator &) = delete;
    RdmaCommunicator &operator=(const RdmaCommunicator &) = delete;

    // Drops the stream, without a wait: call Close before. The node ends with the last of its
    // communicators.
    ~RdmaCommunicator() override {
        if (stream_ != nullptr)
            rp_stream_close(stream_, 0);
        if (listener_ != nullptr)
            rp_listener_close(listener_);
    }

    void Serve() override {
        if (node_)
            throw RdmaCommunicatorError("Serve: the communicator is in use", RP_INVALID);
        node_ = Own(rp_node_start(nullptr, address_.c_str()), "Serve");
        listener_ = rp_stream_listen(node_.get(), Name());
        if (listener_ == nullptr) {
            RdmaCommunicatorError error = Failed("Serve");
            node_.reset();
            throw error;
        }
    }

    const Communicator *Accept() const override {
        if (listener_ == nullptr)
            throw RdmaCommunicatorError("Accept: call Serve first", RP_INVALID);
        rp_stream *stream = rp_stream_accept(listener_, -1);
        if (stream == nullptr)
            throw Failed("Accept");
        return new RdmaCommunicator(address_, node_, stream);
    }

    void Connect() override {
        if (node_)
            throw RdmaCommunicatorError("Connect: the communicator is in use", RP_INVALID);
        char server[65];
        std::shared_ptr<rp_node> node =
            Own(rp_node_client(address_.c_str(), server, sizeof server), "Connect");
        std::string path = std::string(server) + "/" + Name();
        stream_ = rp_stream_connect(node.get(), path.c_str());
        // A server is linked a moment before it listens for streams: it has 5 s for that.
        for (int tries = 0; stream_ == nullptr && MayPass(rp_last_code()) && tries < 250; tries++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            stream_ = rp_stream_connect(node.get(), path.c_str());
        }
        if (stream_ == nullptr)
            throw Failed("Connect");
        node_ = node;
    }

    std::size_t Read(char *buffer, std::size_t size) override {
        std::ptrdiff_t count = rp_stream_read(Stream("Read"), buffer, size, -1);
        if (count < 0)
            throw Failed("Read");
        return static_cast<std::size_t>(count);
    }

    std::size_t Write(const char *buffer, std::size_t size) override {
        if (rp_stream_write(Stream("Write"), buffer, size) < 0)
            throw Failed("Write");
        return size;
    }

    void Sync() override {
        if (rp_stream_sync(Stream("Sync"), -1) < 0)
            throw Failed("Sync");
    }

    void Close() override {
        rp_listener *listener = listener_;
        rp_stream *stream = stream_;
        listener_ = nullptr;
        stream_ = nullptr;
        if (listener != nullptr)
            rp_listener_close(listener);
        if (stream != nullptr && rp_stream_close(stream, -1) < 0)
            throw Failed("Close");
    }

  private:
    RdmaCommunicator(const std::string &address, const std::shared_ptr<rp_node> &node,
                     rp_stream *stream)
        : address_(address), node_(node), stream_(stream) {}

    static bool MayPass(int code) { return code == RP_NOT_FOUND || code == RP_LINK_LOST; }

    // The name under which servers listen.
    static const char *Name() { return "rdmacomm"; }

    static std::string Text(const char *text) {
        if (text == nullptr)
            throw RdmaCommunicatorError("the address or the port is null", RP_INVALID);
        return text;
    }

    static std::string Address(const std::string &ip, const std::string &port) {
        bool is_v6 = ip.find(':') != std::string::npos && ip[0] != '[';
        return (is_v6 ? "[" + ip + "]" : ip) + ":" + port;
    }

    static RdmaCommunicatorError Failed(const char *what) {
        return RdmaCommunicatorError(std::string(what) + ": " + rp_last_error(), rp_last_code());
    }

    static std::shared_ptr<rp_node> Own(rp_node *node, const char *what) {
        if (node == nullptr)
            throw Failed(what);
        return std::shared_ptr<rp_node>(node, [](rp_node *last) { rp_node_shutdown(last, -1); });
    }

    rp_stream *Stream(const char *what) const {
        if (stream_ == nullptr)
            throw RdmaCommunicatorError(std::string(what) + ": it is not connected, or was closed",
                                        RP_INVALID);
        return stream_;
    }

    std::string address_;
    std::shared_ptr<rp_node> node_;
    rp_listener *listener_ = nullptr;
    rp_stream *stream_ = nullptr;
};

// The same class by the name that its first documents use.
using RDMACommunicator = RdmaCommunicator;

#endif
