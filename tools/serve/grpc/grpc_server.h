// The models of a registry over gRPC: tensors, by the Open Inference Protocol (inference.proto).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/model_registry.h"

namespace sinter::tools {

struct GrpcOptions {
  std::string host = "127.0.0.1";
  int port = 0;                       // 0: one that is free
  std::vector<std::string> api_keys;  // metadata 'authorization'; none: all are answered
  int threads = 256;                  // calls that run at once; others wait
  std::size_t body_bytes = 64 << 20;  // of a message at most
};

/// Answers from its construction on. Models that generate text have HTTP alone.
class GrpcServer {
 public:
  /// Throws Error(kUsage) if the address cannot be had.
  GrpcServer(ModelRegistry& models, const GrpcOptions& options);
  /// Calls that run end first.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const;
  /// From any thread: the server is not ready, and inference is refused (UNAVAILABLE).
  void begin_drain();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::tools
