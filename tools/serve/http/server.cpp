// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/server.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "tools/serve/http/connection.h"
#include "tools/serve/http/core.h"

namespace sinter::tools::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

/// The answer of a job that runs elsewhere.
class Task final : public Later {
 public:
  std::optional<Response> poll() override {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return std::exchange(response_, std::nullopt);
  }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (is_done_) wake_();
  }
  void run(const std::function<Response()>& job) {
    std::optional<Response> response;
    std::exception_ptr error;
    try {
      response = job();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    error_ = std::move(error);  // its last owner is who polls
    is_done_ = true;
    if (wake_) wake_();
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::optional<Response> response_;
  std::exception_ptr error_;
  bool is_done_ = false;
};

}  // namespace

struct Server::Impl {
  Impl(const Limits& limits, Router router, Hooks hooks)
      : core(limits, std::move(router), std::move(hooks)),
        strand(asio::make_strand(core.io)),
        acceptor(strand),
        pause(strand) {
    core.on_room = [this] { asio::post(strand, [this] { pause.cancel(); }); };
  }

  Core core;
  Connection::Strand strand;  // of all that follows
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  bool is_accepting = false;

  /// On the acceptor's strand. Where there is no room, clients wait in the system's queue.
  void accept() {
    if (!acceptor.is_open() || is_accepting) return;
    core.is_full = false;
    if (core.roster.size() < core.limits.connections) return accept_one();
    acceptor.async_wait(tcp::acceptor::wait_read, [this](const ErrorCode& error) {
      is_accepting = false;
      if (error) return fail(error);
      if (core.roster.size() < core.limits.connections || make_room()) return accept_one();
      core.is_full = true;
      wait();
    });
    is_accepting = true;
  }

  void accept_one() {
    auto own = asio::make_strand(core.io);
    acceptor.async_accept(own, [this, own](const ErrorCode& error, tcp::socket socket) {
      is_accepting = false;
      if (error) return fail(error);
      take(std::move(socket), own);
      accept();
    });
    is_accepting = true;
  }

  void take(tcp::socket socket, const Connection::Strand& own) {
    core.accepted.fetch_add(1, std::memory_order_relaxed);
    try {
      auto connection = std::make_shared<Connection>(core, std::move(socket), own);
      core.roster.enter(connection);
      connection->start();
    } catch (const std::exception&) {
      core.count(Refused::kConnections);  // no memory for one more: the socket is closed
    }
  }

  bool make_room() {
    const auto idle = core.roster.take_idle(core.limits.keep_time);
    if (idle) idle->make_room();
    return idle != nullptr;
  }

  /// Descriptors or memory are short, say: waits, so as not to try again and again.
  void fail(const ErrorCode& error) {
    if (error == asio::error::operation_aborted) return;
    if (error == asio::error::connection_aborted) return accept();
    core.count(Refused::kConnections);
    make_room();
    wait();
  }

  /// For a moment, or until a connection has ended.
  void wait() {
    pause.expires_after(std::chrono::milliseconds(50));
    pause.async_wait([this](const ErrorCode&) { accept(); });
  }

  void end(bool at_once) {
    core.is_stopping = true;
    asio::post(strand, [this] {
      ErrorCode ignored;
      acceptor.close(ignored);
      pause.cancel();
    });
    for (const auto& connection : core.roster.all()) connection->stop(at_once);
    core.left();
  }
};

Server::Server(const Limits& limits, Router router, Hooks hooks)
    : impl_(std::make_unique<Impl>(limits, std::move(router), std::move(hooks))) {}

Server::~Server() { impl_->core.is_stopping = true; }

std::optional<int> Server::bind(const std::string& host, int port) {
  ErrorCode error;
  tcp::resolver resolver(impl_->core.io);
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) return std::nullopt;
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  // As many as the system lets wait: those of a burst beyond would try again after a second.
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) {
    const auto bound = acceptor.local_endpoint(error);
    if (!error) return bound.port();
  }
  ErrorCode ignored;
  acceptor.close(ignored);
  return std::nullopt;
}

void Server::run() {
  Core& core = impl_->core;
  if (core.is_stopping) return;
  const auto guard = asio::make_work_guard(core.io);
  asio::post(impl_->strand, [this] { impl_->accept(); });
  const auto serve = [this, &core] {
    bool is_to_accept = false;
    while (true) {
      try {
        if (std::exchange(is_to_accept, false))
          asio::post(impl_->strand, [this] { impl_->accept(); });
        core.io.run();
        return;
      } catch (const std::exception&) {
        // Memory was short for accepting, or for the line above: connections catch their own.
        is_to_accept = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < core.limits.io_threads; ++i) others.emplace_back(serve);
  serve();
}

void Server::stop() { impl_->end(false); }
void Server::abort() { impl_->end(true); }

Figures Server::figures() const {
  const Core& core = impl_->core;
  Figures figures;
  figures.connections = static_cast<std::int64_t>(core.roster.size());
  figures.answering = core.answering;
  figures.accepted = core.accepted;
  figures.requests = core.requests;
  for (std::size_t i = 0; i < figures.refused.size(); ++i)
    figures.refused[i] = core.refused[i].load(std::memory_order_relaxed);
  return figures;
}

Response Server::later(std::function<Response()> job) {
  auto task = std::make_shared<Task>();
  const bool is_taken = impl_->core.waiters.post([task, job = std::move(job)] { task->run(job); });
  if (!is_taken) {
    impl_->core.count(Refused::kBusy);
    return impl_->core.hooks.refuse(Request{}, 429,
                                    "too many requests wait already: try again later");
  }
  Response response;
  response.later = std::move(task);
  return response;
}

}  // namespace sinter::tools::http
