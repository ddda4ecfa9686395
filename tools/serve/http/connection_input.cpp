// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/http/connection.h"

// Requests that come.
namespace sinter::tools::http {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;

void Connection::wait_read() {
  if (is_reading_ || saw_end_ || state_ == State::kClosed) return;
  const bool is_busy = state_ == State::kHandling || state_ == State::kWriting;
  if (is_busy && input_.size() >= core_.limits.header_bytes) return watch_errors();
  is_reading_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const ErrorCode& error) {
                       self->is_reading_ = false;
                       if (error) return self->drop();
                       self->guarded([&] { self->on_readable(); });
                     });
}

void Connection::on_readable() {
  if (state_ == State::kClosed) return;
  thread_local std::array<char, 64 << 10> scratch;
  ErrorCode error;
  const std::size_t bytes = socket_.read_some(asio::buffer(scratch), error);
  if (error == asio::error::eof) {
    saw_end_ = true;
    return on_end();
  }
  if (error && error != asio::error::would_block && error != asio::error::try_again) return drop();
  if (bytes > 0 && state_ != State::kLingering) {
    input_.append(scratch.data(), bytes);
    if (state_ <= State::kBody) advance();
  }
  wait_read();
}

/// The client has closed its half, or is gone: which of both is not known.
void Connection::on_end() {
  // What is refused already has its answer, though the body that was thrown away ends too soon.
  if (state_ == State::kBody && early_) {
    closes_ = true;
    send(std::move(*early_));
    return watch_errors();
  }
  if (state_ != State::kHandling && state_ != State::kWriting) return drop();
  watch_errors();
  if (state_ == State::kHandling) set_deadline(core_.limits.probe_time);
}

/// Where nothing is read a reset is seen so.
void Connection::watch_errors() {
  if (is_watching_) return;
  is_watching_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_error,
                     [self = shared_from_this()](const ErrorCode&) { self->drop(); });
}

/// As far as what has come goes.
void Connection::advance() {
  if (state_ == State::kIdle) {
    // Empty lines in front of a request are no harm (RFC 9112, 2.2), however they are cut.
    while (input_.starts_with("\r\n")) input_.erase(0, 2);
    if (input_.empty() || input_ == "\r") {
      if (saw_end_) drop();
      return;
    }
    state_ = State::kHead;
    set_deadline(core_.limits.header_time);
  }
  if (state_ == State::kHead && !read_head()) return;
  if (state_ == State::kBody && read_body()) handle();
}

/// False: there is no whole head.
bool Connection::read_head() {
  std::optional<Refusal> refusal;
  const std::size_t bytes = scanner_.scan(input_, core_.limits, refusal);
  if (!refusal && bytes > 0)
    refusal = check_head(std::string_view(input_).substr(0, bytes), core_.limits);
  if (refusal) {
    refuse(*refusal, refusal->status == 400 || refusal->status == 501 || refusal->status == 505
                         ? Refused::kMalformed
                         : Refused::kHead);
    return false;
  }
  if (bytes == 0) {
    if (saw_end_) drop();
    return false;
  }
  begin_request(bytes);
  return state_ == State::kBody;
}

namespace {

/// Path and host of a target: "/path?query", "http://host/path", or "*".
void split_target(std::string_view target, Request& request) {
  request.host = request.header("host");
  if (const auto scheme = target.find("://");
      scheme != std::string_view::npos && !target.starts_with('/') && scheme < 6) {
    target.remove_prefix(scheme + 3);
    const auto end = std::min(target.find_first_of("/?"), target.size());
    request.host = target.substr(0, end);
    target.remove_prefix(end);
  }
  request.path = target.substr(0, target.find('?'));
  if (request.path.empty()) request.path = "/";
}

}  // namespace

void Connection::begin_request(std::size_t head_bytes) {
  unlist_idle();
  scanner_ = {};
  parser_.emplace();
  parser_->header_limit(UINT32_MAX);  // these are checked
  parser_->body_limit(boost::none);
  ErrorCode error;
  const std::size_t used = parser_->put(asio::buffer(input_.data(), head_bytes), error);
  if (error || used != head_bytes || !parser_->is_header_done()) {
    parser_.reset();
    return refuse(
        {400, fmt::format("the request is no HTTP that is understood: {}", error.message())},
        Refused::kMalformed);
  }
  input_.erase(0, head_bytes);
  core_.requests.fetch_add(1, std::memory_order_relaxed);
  request_ = std::make_shared<Request>();
  const auto& head = parser_->get();
  request_->method = std::string(head.method_string());
  for (const auto& field : head)
    request_->headers.emplace_back(lower(std::string_view(field.name_string())),
                                   std::string(field.value()));
  split_target(std::string_view(head.target()), *request_);
  is_1_0_ = head.version() == 10;
  closes_ = closes_ || !parser_->keep_alive();
  const auto length = parser_->content_length();
  request_->has_body = parser_->chunked() || (length && *length > 0);
  parser_->eager(true);
  state_ = State::kBody;
  begin_pace(core_.limits.body_time);

  auto& body = parser_->get().body();
  body.all = &core_.body_bytes;
  body.most_of_all = core_.limits.all_body_bytes;
  auto early = decide();
  // What a GET might mean by a body nobody has said: it is thrown away.
  body.keeps = !early && route_->method != "GET";
  body.most = body.keeps ? core_.limits.body_bytes : core_.limits.drained_bytes;
  const bool is_long = length && *length > body.most;
  if (!early && is_long) early = too_long(*length);
  const bool expects = request_->has("expect") && request_->has_body && !is_1_0_;
  if (!early) {
    if (expects && input_.empty()) write_now("HTTP/1.1 100 Continue\r\n\r\n");
    return;
  }
  body.keeps = false;
  // Who waits for 100 does not send the body, or does.
  if (is_long || expects) {
    closes_ = true;
    return send(std::move(*early));
  }
  body.most = core_.limits.drained_bytes;
  early_ = std::move(early);
  set_deadline(core_.limits.linger_time);
}

Response Connection::too_long(std::uint64_t bytes) {
  core_.count(Refused::kBody);
  const auto& body = parser_->get().body();
  if (!body.keeps)
    return core_.hooks.refuse(*request_, 400,
                              fmt::format("a {} has no use for a body", request_->method));
  return core_.hooks.refuse(*request_, 413,
                            fmt::format("the body has {} bytes: {} at most", bytes, body.most));
}

/// What is said without a handler; else route_ is the one that the request is for.
std::optional<Response> Connection::decide() {
  Request& request = *request_;
  auto match = core_.router.find(request.method, request.path);
  route_ = request.method == "OPTIONS" ? nullptr : match.route;
  request.parameters = std::move(match.parameters);
  if (auto refused = core_.hooks.admit(request, route_)) return refused;
  const auto expect = request.header("expect");
  if (!expect.empty() && lower(expect) != "100-continue")
    return core_.hooks.refuse(request, 417, "the only expectation that is met is 100-continue");
  if (const std::string coding = lower(request.header("content-encoding"));
      !coding.empty() && coding != "identity")
    return core_.hooks.refuse(
        request, 415,
        fmt::format("a body with the Content-Encoding '{}' is not taken: send it as it is",
                    coding.substr(0, 32)));
  if (route_ != nullptr) return std::nullopt;
  if (request.method == "OPTIONS" && (request.path == "*" || !match.allowed.empty())) {
    Response response{.status = 204};
    response.headers.emplace_back("Allow",
                                  request.path == "*" ? core_.router.all_methods() : match.allowed);
    return response;
  }
  if (match.allowed.empty())
    return core_.hooks.refuse(request, 404,
                              fmt::format("there is no {} {}", request.method, request.path));
  Response response = core_.hooks.refuse(
      request, 405,
      fmt::format("{} takes no {}, only {}", request.path, request.method, match.allowed));
  response.headers.emplace_back("Allow", match.allowed);
  return response;
}

/// Whether the body is whole.
bool Connection::read_body() {
  auto& body = parser_->get().body();
  if (!parser_->is_done() && !input_.empty()) {
    ErrorCode error;
    const std::size_t used = parser_->put(asio::buffer(input_), error);
    input_.erase(0, used);
    if (error == beast_http::error::body_limit) {
      closes_ = true;
      if (early_) {
        send(std::move(*early_));
      } else if (body.is_starved) {
        core_.count(Refused::kBodyMemory);
        send(core_.hooks.refuse(*request_, 503,
                                "the bodies of other requests fill the memory that "
                                "is for them: try again later"));
      } else {
        send(too_long(body.count));
      }
      return false;
    }
    // What a chunk's line or the trailers have beyond: they are not kept, but wait to be whole.
    const bool is_stuck =
        error == beast_http::error::need_more && input_.size() > core_.limits.header_bytes;
    if ((error && error != beast_http::error::need_more) || is_stuck) {
      refuse({400, fmt::format("the body is not in chunks as they must be: {}", error.message())},
             Refused::kMalformed);
      return false;
    }
    if (!early_) keep_pace(body.count, core_.limits.body_time);
  }
  if (parser_->is_done()) return true;
  if (saw_end_) drop();
  return false;
}

/// What is so short that it goes out at once, in front of an answer.
void Connection::write_now(std::string_view text) {
  ErrorCode error;
  const std::size_t sent = socket_.write_some(asio::buffer(text), error);
  if (error || sent != text.size()) drop();
}

}  // namespace sinter::tools::http
