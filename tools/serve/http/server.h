// SPDX-License-Identifier: Apache-2.0
// A server of HTTP/1.1 on Boost.Asio and Boost.Beast that knows no models: connections cost no
// threads, and each has limits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/serve/http/hooks.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/message.h"
#include "tools/serve/http/router.h"

namespace sinter::tools::http {

class Server {
 public:
  Server(const Limits& limits, Router router, Hooks hooks);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// `port` 0: one that is free. The port, or nothing if the address cannot be had.
  std::optional<int> bind(const std::string& host, int port);
  /// Answers until stop(). Once.
  void run();
  /// From any thread: takes no more, and run() returns when what is being answered has been.
  void stop();
  /// From any thread: as stop(), and breaks off what is being answered.
  void abort();
  Figures figures() const;
  /// An answer that `job`, which may wait for long, makes on a thread of its own.
  Response later(std::function<Response()> job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::tools::http
