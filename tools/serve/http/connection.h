// SPDX-License-Identifier: Apache-2.0
// A connection: reads requests, one after the other, and writes their answers. Private to this
// folder.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/serve/http/bounded_body.h"
#include "tools/serve/http/core.h"
#include "tools/serve/http/head_check.h"

namespace sinter::tools::http {

/// Everything but the public members runs on the strand of its socket. One wait for input, one
/// write and one timer are under way at most. Nothing is allocated for a connection that is idle
/// but the object itself.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  /// The socket's executor is `strand`.
  Connection(Core& core, boost::asio::ip::tcp::socket socket, Strand strand);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From any thread.
  void start();
  /// Closes it unless a request has come whole.
  void make_room();
  /// Closes it when what is being answered has been, or at once.
  void stop(bool at_once);

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  enum class State : std::uint8_t {
    kIdle,       // no byte of a request yet
    kHead,       // some
    kBody,       // the head is known
    kHandling,   // a handler has the request, or its answer is not there yet
    kWriting,    // the answer
    kLingering,  // closed for writing; what still comes is thrown away
    kClosed,
  };

  template <class Body>
  void guarded(const Body& body);
  template <class Body>
  void on_strand(Body body);

  void notice_who_vanishes();

  // Input.
  void wait_read();
  void on_readable();
  void on_end();
  void watch_errors();
  void advance();
  bool read_head();
  void begin_request(std::size_t head_bytes);
  std::optional<Response> decide();
  bool read_body();
  Response too_long(std::uint64_t bytes);

  // Handling.
  void handle();
  template <class Give>
  void hand_over(const Give& give);
  void respond(Response response);
  void on_wake();
  void poll_later();
  std::function<void()> waker();

  // Output.
  void refuse(const Refusal& refusal, Refused reason);
  void send(Response response);
  void pump_source();
  void break_off_slow_reader();
  void write_chunk(bool ends);
  void write_now(std::string_view text);
  void release_response();
  void end_request();
  void write(const std::vector<boost::asio::const_buffer>& buffers, void (Connection::*then)());
  void finish_response();
  void become_idle();
  void linger();
  void drop();

  // Time.
  void set_deadline(Clock::time_point deadline);
  void set_deadline(std::chrono::milliseconds from_now) { set_deadline(Clock::now() + from_now); }
  void no_deadline() { deadline_ = Clock::time_point::max(); }
  void on_timer();
  void expired();
  void list_idle();
  void unlist_idle();
  void release_body();
  void begin_pace(std::chrono::milliseconds time);
  void keep_pace(std::size_t bytes, std::chrono::milliseconds time);

  Core& core_;
  Strand strand_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max(), armed_ = Clock::time_point::max();
  State state_ = State::kIdle;
  bool is_reading_ = false, is_writing_ = false, is_watching_ = false, is_polling_ = false,
       wants_poll_ = false, saw_end_ = false, is_probed_ = false, closes_ = false, is_1_0_ = false,
       is_listed_ = false, is_answering_ = false;
  std::atomic<bool> is_gone_ = false, is_lost_ = false;  // lost: there is no memory for its answer

  std::string input_;  // what has come and is not parsed
  HeadScanner scanner_;
  std::optional<boost::beast::http::request_parser<BoundedBody>> parser_;
  std::shared_ptr<Request> request_;
  const Route* route_ = nullptr;
  std::optional<Response> early_;  // goes out when the body has been thrown away
  std::size_t paced_ = 0;          // bytes of the body, or of the present write, at the last pace

  Response response_;         // that is being written
  std::string head_, chunk_;  // bytes that are being written
};

/// An exception is this connection's end, not the server's: memory is short, say.
template <class Body>
void Connection::guarded(const Body& body) {
  try {
    body();
  } catch (...) {
    drop();
  }
}
template <class Body>
void Connection::on_strand(Body body) {
  boost::asio::post(strand_, [self = shared_from_this(), body = std::move(body)]() mutable {
    self->guarded([&] { body(*self); });
  });
}

}  // namespace sinter::tools::http
