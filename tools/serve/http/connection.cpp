// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/connection.h"

#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

// Its life, the handlers, and time.
namespace sinter::tools::http {

namespace asio = boost::asio;

namespace {

/// How often a request that is being handled is looked at.
constexpr std::chrono::milliseconds kHeartbeat{30'000};

}  // namespace

Connection::Connection(Core& core, asio::ip::tcp::socket socket, Strand strand)
    : core_(core),
      strand_(std::move(strand)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()) {}

Connection::~Connection() { drop(); }

void Connection::start() {
  on_strand([](Connection& self) {
    ErrorCode ignored;
    self.socket_.non_blocking(true, ignored);
    self.socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self.notice_who_vanishes();
    if (self.core_.is_stopping) return self.drop();
    self.become_idle();
  });
}

/// A client whose machine or network is gone sends no end: after 90 s that is an error.
void Connection::notice_who_vanishes() {
  ErrorCode ignored;
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {
    setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 10);
  set(TCP_KEEPCNT, 3);
}

void Connection::make_room() {
  on_strand([](Connection& self) {
    if (self.state_ > State::kBody) return;
    self.core_.count(Refused::kMadeRoom);
    self.drop();
  });
}

void Connection::stop(bool at_once) {
  on_strand([at_once](Connection& self) {
    const bool is_busy = self.state_ == State::kHandling || self.state_ == State::kWriting;
    if (at_once || !is_busy) return self.drop();
    self.closes_ = true;
  });
}

/// On a worker's thread, which has no memory for the answer, perhaps.
template <class Give>
void Connection::hand_over(const Give& give) {
  try {
    give();
  } catch (...) {
    is_lost_ = true;
  }
}

void Connection::handle() {
  core_.answering.fetch_add(1, std::memory_order_relaxed);
  is_answering_ = true;
  if (early_) return send(std::move(*early_));
  state_ = State::kHandling;
  set_deadline(saw_end_ ? core_.limits.probe_time : kHeartbeat);
  request_->body = std::move(parser_->get().body().text);
  const bool is_taken =
      core_.pool(route_->work).post([self = shared_from_this(), request = request_] {
        if (self->is_gone_) return;
        Response response;
        try {
          response = self->route_->handler(*request);
        } catch (...) {
          response = self->core_.hooks.error(*request, std::current_exception());
        }
        self->hand_over([&] {
          // A copyable function is what posts.
          auto answer = std::make_shared<Response>(std::move(response));
          self->on_strand([answer](Connection& it) {
            it.release_body();
            it.respond(std::move(*answer));
          });
        });
      });
  if (is_taken) return;
  core_.count(Refused::kBusy);
  release_body();
  send(core_.hooks.refuse(*request_, 429, "too many requests wait already: try again later"));
}

void Connection::respond(Response response) {
  if (state_ == State::kClosed) return core_.dispose(std::move(response));
  if (!response.later) return send(std::move(response));
  response_ = std::move(response);
  response_.later->on_ready(waker());
  poll_later();
}

/// Wakes this connection, which may have ended by then; not within the call, and never the last
/// to hold it: who calls may hold locks, or be a thread that this would wait for.
std::function<void()> Connection::waker() {
  return [weak = weak_from_this(), strand = strand_] {
    asio::post(strand, [weak] {
      const auto self = weak.lock();
      if (self) self->guarded([&] { self->on_wake(); });
    });
  };
}

void Connection::on_wake() {
  if (state_ == State::kHandling && response_.later) return poll_later();
  if (state_ != State::kWriting || !response_.source) return;
  if (!is_writing_) return pump_source();
  if (response_.source->is_behind()) break_off_slow_reader();
}

void Connection::poll_later() {
  wants_poll_ = true;
  if (is_polling_) return;
  wants_poll_ = false;
  is_polling_ = true;
  core_.answers.post_always(
      [self = shared_from_this(), request = request_, later = response_.later] {
        std::optional<Response> response;
        try {
          if (!self->is_gone_) response = later->poll();
        } catch (...) {
          response = self->core_.hooks.error(*request, std::current_exception());
        }
        self->hand_over([&] {
          auto answer = std::make_shared<std::optional<Response>>(std::move(response));
          self->on_strand([answer](Connection& it) {
            it.is_polling_ = false;
            if (*answer)
              it.respond(std::move(**answer));
            else if (it.wants_poll_ && it.state_ == State::kHandling)
              it.poll_later();
          });
        });
      });
}

void Connection::release_body() {
  if (request_) std::string().swap(request_->body);
  if (!parser_) return;
  auto& body = parser_->get().body();
  core_.body_bytes -= std::exchange(body.held, 0);
  std::string().swap(body.text);
}

void Connection::set_deadline(Clock::time_point deadline) {
  deadline_ = deadline;
  if (deadline >= armed_) return;  // the timer that runs looks again
  armed_ = deadline;
  timer_.expires_at(deadline);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->guarded([&] { self->on_timer(); });
  });
}

void Connection::begin_pace(std::chrono::milliseconds time) {
  paced_ = 0;
  set_deadline(time);
}

/// `bytes` have moved since begin_pace().
void Connection::keep_pace(std::size_t bytes, std::chrono::milliseconds time) {
  const std::size_t wanted =
      core_.limits.least_rate * static_cast<std::size_t>(time.count()) / 1000;
  if (bytes < paced_ + wanted) return;
  paced_ = bytes;
  set_deadline(time);
}

void Connection::on_timer() {
  if (state_ == State::kClosed) return;
  armed_ = Clock::time_point::max();
  if (Clock::now() < deadline_) {
    if (deadline_ != Clock::time_point::max()) set_deadline(deadline_);
    return;
  }
  no_deadline();
  expired();
}

void Connection::expired() {
  switch (state_) {
    case State::kHead:
      return refuse({408, "the rest of the request's headers did not come in time"},
                    Refused::kTimeout);
    case State::kBody:
      if (early_) {
        closes_ = true;
        return send(std::move(*early_));
      }
      return refuse({408, "the rest of the request's body did not come in time"},
                    Refused::kTimeout);
    case State::kHandling:
      if (is_lost_) return drop();
      set_deadline(kHeartbeat);
      // A client that has closed its half alone may throw this away (RFC 9110, 15.2.1); one that is
      // gone answers with a reset.
      if (saw_end_ && !is_1_0_ && !std::exchange(is_probed_, true))
        write_now("HTTP/1.1 100 Continue\r\n\r\n");
      return;
    case State::kWriting:
      if (is_writing_ || !response_.source) return break_off_slow_reader();
      chunk_ = response_.source->silence();
      if (!chunk_.empty()) write_chunk(false);
      return;
    case State::kIdle:
    case State::kLingering: return drop();
    case State::kClosed: return;
  }
}

void Connection::list_idle() {
  if (std::exchange(is_listed_, true)) return;
  core_.roster.add_idle(this);
}

void Connection::unlist_idle() {
  if (std::exchange(is_listed_, false)) core_.roster.remove_idle(this);
}

}  // namespace sinter::tools::http
