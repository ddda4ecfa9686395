// SPDX-License-Identifier: Apache-2.0
// What the connections of a server share. Private to this folder.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/serve/http/hooks.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/router.h"
#include "tools/serve/http/worker_pool.h"

namespace sinter::tools::http {

class Connection;

/// All connections, and those of them that nobody works for, the one that is so longest first.
class Roster {
 public:
  void enter(const std::shared_ptr<Connection>& connection);
  void leave(Connection* connection);
  void add_idle(Connection* connection);
  void remove_idle(Connection* connection);
  /// The connection that is idle longest, `least` at least, which is no longer in the list; null:
  /// none is.
  std::shared_ptr<Connection> take_idle(std::chrono::milliseconds least);
  std::vector<std::shared_ptr<Connection>> all() const;
  std::size_t size() const;

 private:
  struct Entry {
    std::weak_ptr<Connection> connection;
    std::optional<std::list<Connection*>::iterator> idle_at;
    std::chrono::steady_clock::time_point idle_since;
  };
  mutable std::mutex mutex_;
  std::unordered_map<Connection*, Entry> all_;
  std::list<Connection*> idle_;
};

struct Core {
  Core(Limits given, Router routes, Hooks by)
      : limits(given),
        router(std::move(routes)),
        hooks(std::move(by)),
        quick(2, given.queued),
        workers(given.workers, given.queued),
        waiters(given.waiters, given.queued),
        answers(4, given.queued),
        endings(4, given.queued) {}

  void count(Refused reason) {
    refused[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  WorkerPool& pool(Work work) {
    return work == Work::kQuick ? quick : work == Work::kWorker ? workers : waiters;
  }
  /// Ends what may take long to end, as a model whose last request this was, on another thread.
  void dispose(Response response) noexcept;
  /// After a connection has ended.
  void left();

  const Limits limits;
  const Router router;
  const Hooks hooks;
  std::atomic<std::size_t> body_bytes = 0;  // of bodies that are held
  std::atomic<std::int64_t> answering = 0;
  std::atomic<std::uint64_t> accepted = 0, requests = 0;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Refused::kCount)> refused{};
  std::atomic<bool> is_stopping = false;
  /// Clients wait for a connection: an answer ends the one that it goes over, so that each has its
  /// turn.
  std::atomic<bool> is_full = false;
  std::function<void()> on_room;  // called when one has ended
  Roster roster;
  boost::asio::io_context io;
  // Last: their jobs end first. `answers` polls what is there later, `endings` disposes: neither
  // stands behind handlers.
  WorkerPool quick, workers, waiters, answers, endings;
};

}  // namespace sinter::tools::http
