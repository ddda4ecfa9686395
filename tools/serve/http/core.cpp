// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/core.h"

namespace sinter::tools::http {

std::string_view to_string(Refused reason) {
  switch (reason) {
    case Refused::kMalformed: return "malformed";
    case Refused::kHead: return "head";
    case Refused::kBody: return "body";
    case Refused::kBodyMemory: return "body_memory";
    case Refused::kTimeout: return "timeout";
    case Refused::kSlowReader: return "slow_reader";
    case Refused::kConnections: return "connections";
    case Refused::kMadeRoom: return "made_room";
    case Refused::kBusy: return "busy";
    case Refused::kCount: break;
  }
  return "unknown";
}

void Roster::enter(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  all_.emplace(connection.get(), Entry{connection, {}});
}

void Roster::leave(Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(connection);
  if (found == all_.end()) return;
  if (found->second.idle_at) idle_.erase(*found->second.idle_at);
  all_.erase(found);
}

void Roster::add_idle(Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(connection);
  if (found == all_.end()) return;
  found->second.idle_at = idle_.insert(idle_.end(), connection);
  found->second.idle_since = std::chrono::steady_clock::now();
}

void Roster::remove_idle(Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(connection);
  if (found == all_.end() || !found->second.idle_at) return;
  idle_.erase(*found->second.idle_at);
  found->second.idle_at.reset();
}

std::shared_ptr<Connection> Roster::take_idle(std::chrono::milliseconds least) {
  const std::lock_guard lock(mutex_);
  while (!idle_.empty()) {
    Entry& entry = all_.at(idle_.front());
    if (std::chrono::steady_clock::now() - entry.idle_since < least) return nullptr;
    idle_.pop_front();
    entry.idle_at.reset();
    if (auto connection = entry.connection.lock()) return connection;
  }
  return nullptr;
}

std::vector<std::shared_ptr<Connection>> Roster::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Connection>> result;
  for (const auto& [_, entry] : all_)
    if (auto connection = entry.connection.lock()) result.push_back(std::move(connection));
  return result;
}

std::size_t Roster::size() const {
  const std::lock_guard lock(mutex_);
  return all_.size();
}

void Core::dispose(Response response) noexcept {
  if (!response.source && !response.later && response.pieces.empty()) return;
  try {
    auto held = std::make_shared<Response>(std::move(response));
    endings.post_always([held = std::move(held)]() mutable { held.reset(); });
  } catch (...) {
    // No memory for it: it ends here.
  }
}

void Core::left() {
  if (is_stopping && roster.size() == 0) io.stop();
  if (is_full && !is_stopping) on_room();
}

}  // namespace sinter::tools::http
