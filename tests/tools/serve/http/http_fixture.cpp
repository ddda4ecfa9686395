// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/serve/http/http_fixture.h"

#include <array>
#include <cstdlib>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sinter::tests {

RawClient::RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval wait{10, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

RawClient::~RawClient() { close(); }

bool RawClient::send(std::string_view text) const {
  while (!text.empty()) {
    const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawClient::close_half() const { shutdown(socket_, SHUT_WR); }

void RawClient::close(bool resets) {
  if (socket_ < 0) return;
  const linger now{1, 0};
  if (resets) setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(socket_);
  socket_ = -1;
}

std::string RawClient::read(std::string_view wanted) const {
  std::string text;
  std::array<char, 65536> piece{};
  while (wanted.empty() || text.find(wanted) == std::string::npos) {
    const auto got = recv(socket_, piece.data(), piece.size(), 0);
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

bool RawClient::is_closed() const {
  std::array<char, 65536> piece{};
  while (true) {
    const auto got = recv(socket_, piece.data(), piece.size(), 0);
    if (got == 0) return true;
    if (got < 0) return errno == ECONNRESET;
  }
}

std::vector<int> statuses(std::string_view text) {
  constexpr std::string_view kStart = "HTTP/1.1 ";
  std::vector<int> result;
  for (auto at = text.find(kStart); at != std::string_view::npos; at = text.find(kStart, at + 1)) {
    const int code = std::atoi(std::string(text.substr(at + kStart.size(), 3)).c_str());
    if (code > 0) result.push_back(code);
  }
  return result;
}

std::string body_of(std::string_view text) {
  const auto end = text.find("\r\n\r\n");
  return end == std::string_view::npos ? "" : std::string(text.substr(end + 4));
}

bool eventually(const std::function<bool()>& is_true) {
  for (int i = 0; i < 1000; ++i) {
    if (is_true()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void Gate::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_open_; });
}
bool Gate::is_open() {
  const std::lock_guard lock(mutex_);
  return is_open_;
}
void Gate::open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
  changed_.notify_all();
}

namespace {

/// "tick" whenever it is asked for, and too much of it when the gate is open; or nothing until the
/// gate is open, then "done".
class Ticks final : public http::Source {
 public:
  Ticks(std::atomic<int>& alive, bool is_endless) : alive_(alive), is_endless_(is_endless) {
    ++alive_;
  }
  ~Ticks() override {
    is_ended_ = true;
    if (thread_.joinable()) thread_.join();
    --alive_;
  }
  State next(std::string& to) override {
    if (is_endless_) {
      to += "tick ";
      return State::kMore;
    }
    if (!is_open_) return State::kWait;
    to += "done";
    return State::kEnd;
  }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (is_open_ && wake_) wake_();
  }
  bool is_behind() const override { return is_endless_ && is_open_; }
  std::string silence() override { return ":"; }
  void open_behind(Gate& gate) {
    thread_ = std::thread([this, &gate] {
      while (!gate.is_open() && !is_ended_)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex_);
      is_open_ = true;
      if (wake_) wake_();
    });
  }

 private:
  std::atomic<int>& alive_;
  bool is_endless_;
  std::mutex mutex_;
  std::atomic<bool> is_open_ = false, is_ended_ = false;
  std::function<void()> wake_;
  std::thread thread_;
};

http::Response text_of(std::string text) { return {.type = "text/plain", .body = std::move(text)}; }

}  // namespace

void HttpTest::begin() {
  http::Router router;
  using http::Request;
  using http::Work;
  router.add("GET", "/quick", Work::kQuick, 0, [this](const Request&) {
    ++handled_;
    return text_of("quick");
  });
  router.add("POST", "/echo", Work::kWorker, 0, [this](const Request& request) {
    ++handled_;
    return text_of(request.body);
  });
  router.add("POST", "/wait", Work::kWorker, 0, [this](const Request&) {
    ++handled_;
    gate_.wait();
    return text_of("waited");
  });
  router.add("POST", "/later", Work::kWorker, 0, [this](const Request&) {
    ++handled_;
    return server_->later([this] {
      gate_.wait();
      return text_of("later");
    });
  });
  router.add("GET", "/stream", Work::kQuick, 0, [this](const Request&) {
    auto ticks = std::make_shared<Ticks>(sources_, false);
    ticks->open_behind(gate_);
    http::Response response{.type = "text/plain"};
    response.source = std::move(ticks);
    return response;
  });
  router.add("GET", "/endless", Work::kQuick, 0, [this](const Request&) {
    auto ticks = std::make_shared<Ticks>(sources_, true);
    ticks->open_behind(gate_);
    http::Response response{.type = "text/plain"};
    response.source = std::move(ticks);
    return response;
  });
  router.add("GET", "/name/{name}", Work::kQuick, 0,
             [](const Request& request) { return text_of(request.parameters[0]); });
  router.add("GET", "/host", Work::kQuick, 0,
             [](const Request& request) { return text_of(request.host + request.path); });
  router.add("POST", "/throw", Work::kWorker, 0,
             [](const Request&) -> http::Response { throw std::runtime_error("thrown"); });
  http::Hooks hooks;
  hooks.admit = [](const Request& request, const http::Route*) -> std::optional<http::Response> {
    if (!request.has("x-refuse")) return std::nullopt;
    return http::Response{.status = 401, .body = "no"};
  };
  hooks.refuse = [](const Request&, int status, std::string_view message) {
    return http::Response{.status = status, .body = std::string(message)};
  };
  hooks.error = [](const Request&, const std::exception_ptr&) {
    return http::Response{.status = 500, .body = "an error"};
  };
  hooks.finish = [](const Request&, http::Response&) {};
  server_ = std::make_unique<http::Server>(limits_, std::move(router), std::move(hooks));
  port_ = server_->bind("127.0.0.1", 0).value();
  thread_ = std::thread([this] { server_->run(); });
}

void HttpTest::end() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

void HttpTest::TearDown() {
  gate_.open();
  end();
  server_.reset();
  EXPECT_EQ(sources_, 0);
}

std::string HttpTest::ask(std::string_view text) const {
  const RawClient client(port_);
  client.send(text);
  return client.read();
}

}  // namespace sinter::tests
