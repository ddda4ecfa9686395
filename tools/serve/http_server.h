// SPDX-License-Identifier: Apache-2.0
// The models of a registry over HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/http/limits.h"
#include "tools/serve/model_registry.h"

namespace sinter::tools {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                    // 0: one that is free
  std::vector<std::string> api_keys;  // requests need one of them; none: all are answered
  std::vector<std::string> hosts;     // further names of the server (http::SiteGuard)
  std::vector<std::string> origins;   // pages that may ask, "*": all
  http::Limits limits;
};

/// Routes: README.md. Every error is answered as JSON.
class HttpServer {
 public:
  HttpServer(ModelRegistry& models, HttpOptions options);
  ~HttpServer();

  /// Throws Error(kUsage) if the address cannot be had. The port that it has.
  int bind();
  /// Answers until stop().
  void run();
  /// From any thread: generations are refused (503), the rest is answered.
  void begin_drain();
  /// From any thread: requests that are being answered, those about the server itself too.
  std::int64_t answering() const;
  /// From any thread: breaks off all that is being answered, and ends run().
  void abort();
  /// From any thread: run() ends when what is being answered has been.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::tools
