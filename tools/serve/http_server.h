// The models of a registry over HTTP.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/model_registry.h"

namespace sinter::tools {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                    // 0: one that is free
  std::vector<std::string> api_keys;  // requests need one of them; none: all are answered
  int connections = 256;              // that are served at once; others wait
  std::size_t body_bytes = 64 << 20;  // of a request at most
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
  /// From any thread: breaks off texts that are being generated.
  void abort();
  /// From any thread but those that answer. Connections that are being answered end first.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::tools
