// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/http/connection.h"

// Answers that go.
namespace sinter::tools::http {

namespace asio = boost::asio;

void Connection::refuse(const Refusal& refusal, Refused reason) {
  core_.count(reason);
  closes_ = true;
  send(core_.hooks.refuse(request_ ? *request_ : Request{}, refusal.status, refusal.message));
}

void Connection::send(Response response) {
  if (state_ == State::kClosed) return core_.dispose(std::move(response));
  unlist_idle();
  core_.dispose(std::exchange(response_, std::move(response)));
  early_.reset();
  state_ = State::kWriting;
  if (request_) core_.hooks.finish(*request_, response_);
  closes_ = closes_ || response_.closes || core_.is_stopping || core_.is_full ||
            (saw_end_ && input_.empty());
  const bool is_bare = response_.status == 204 || response_.status == 304;
  const bool has_body = !is_bare && !(request_ && request_->method == "HEAD");
  std::string framing;
  std::vector<asio::const_buffer> buffers(1);
  if (response_.source) {
    if (is_1_0_)
      closes_ = true;
    else
      framing = "Transfer-Encoding: chunked\r\n";
    if (!has_body) core_.dispose({.source = std::exchange(response_.source, nullptr)});
  } else {
    std::size_t bytes = response_.body.size();
    if (has_body) buffers.push_back(asio::buffer(response_.body));
    for (const Piece& piece : response_.pieces) {
      bytes += piece.bytes.size();
      if (has_body) buffers.push_back(asio::buffer(piece.bytes));
    }
    if (!is_bare) framing = fmt::format("Content-Length: {}\r\n", bytes);
  }
  head_ = head_of(response_, !closes_, framing);
  buffers[0] = asio::buffer(head_);
  if (!response_.source) return write(buffers, &Connection::finish_response);
  response_.source->on_ready(waker());
  write(buffers, &Connection::pump_source);
}

void Connection::break_off_slow_reader() {
  core_.count(Refused::kSlowReader);
  drop();
}

void Connection::pump_source() {
  if (response_.source->is_behind()) return break_off_slow_reader();
  chunk_.clear();
  Source::State came = Source::State::kMore;
  while (came == Source::State::kMore && chunk_.size() < core_.limits.write_bytes)
    came = response_.source->next(chunk_);
  const bool ends = came == Source::State::kEnd;
  if (ends) core_.dispose({.source = std::exchange(response_.source, nullptr)});
  if (chunk_.empty() && !ends) return set_deadline(core_.limits.silence_time);
  write_chunk(ends);
}

void Connection::write_chunk(bool ends) {
  std::vector<asio::const_buffer> buffers;
  if (!is_1_0_ && !chunk_.empty()) {
    head_ = fmt::format("{:x}\r\n", chunk_.size());
    buffers.push_back(asio::buffer(head_));
  }
  buffers.push_back(asio::buffer(chunk_));
  if (!is_1_0_) {
    constexpr std::string_view kChunkEnd = "\r\n", kEnd = "0\r\n\r\n";
    if (!chunk_.empty()) buffers.push_back(asio::buffer(kChunkEnd));
    if (ends) buffers.push_back(asio::buffer(kEnd));
  }
  write(buffers, ends ? &Connection::finish_response : &Connection::pump_source);
}

void Connection::write(const std::vector<asio::const_buffer>& buffers, void (Connection::*then)()) {
  is_writing_ = true;
  begin_pace(core_.limits.write_time);
  constexpr std::size_t kPart = 256 << 10;
  asio::async_write(
      socket_, buffers,
      [this](const ErrorCode& error, std::size_t sent) -> std::size_t {
        if (error) return 0;
        keep_pace(sent, core_.limits.write_time);
        return kPart;
      },
      [self = shared_from_this(), then](const ErrorCode& error, std::size_t) {
        self->is_writing_ = false;
        if (self->state_ == State::kClosed) return self->release_response();
        if (error) return self->drop();
        self->guarded([&] { ((*self).*then)(); });
      });
}

/// Not while it is being written.
void Connection::release_response() {
  if (is_writing_) return;
  core_.dispose(std::exchange(response_, {}));
}

void Connection::finish_response() {
  release_response();
  release_body();
  end_request();
  if (closes_ || core_.is_stopping) return linger();
  become_idle();
}

void Connection::end_request() {
  if (std::exchange(is_answering_, false)) core_.answering.fetch_sub(1, std::memory_order_relaxed);
  parser_.reset();
  request_.reset();
  route_ = nullptr;
}

void Connection::become_idle() {
  state_ = State::kIdle;
  is_probed_ = false;
  scanner_ = {};
  std::string().swap(head_);
  std::string().swap(chunk_);
  if (input_.empty()) std::string().swap(input_);
  set_deadline(core_.limits.idle_time);
  list_idle();
  advance();
  wait_read();
}

/// Ends the connection so that the client gets the answer even if it is still sending: closing with
/// unread bytes would be a reset.
void Connection::linger() {
  ErrorCode ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (saw_end_) return drop();
  state_ = State::kLingering;
  std::string().swap(input_);
  // A server that ends does not wait for who keeps the connection.
  constexpr std::chrono::milliseconds kMoment{100};
  set_deadline(core_.is_stopping ? kMoment : core_.limits.linger_time);
  wait_read();
}

/// The end, whatever runs. A handler's answer finds it closed.
void Connection::drop() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  is_gone_ = true;
  unlist_idle();
  ErrorCode ignored;
  socket_.close(ignored);
  timer_.cancel();
  release_response();
  if (early_) core_.dispose(std::move(*std::exchange(early_, std::nullopt)));
  if (std::exchange(is_answering_, false)) core_.answering.fetch_sub(1, std::memory_order_relaxed);
  if (parser_) core_.body_bytes -= std::exchange(parser_->get().body().held, 0);
  core_.roster.leave(this);
  core_.left();
}

}  // namespace sinter::tools::http
