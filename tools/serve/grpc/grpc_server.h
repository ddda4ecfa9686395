// SPDX-License-Identifier: Apache-2.0
// The models of a registry over gRPC: tensors, by the Open Inference Protocol (inference.proto).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <sinter/export.h>

#include "tools/serve/model_registry.h"

namespace sinter::tools {

struct GrpcOptions {
  std::string host = "127.0.0.1";
  int port = 0;                       // 0: one that is free
  std::vector<std::string> api_keys;  // metadata 'authorization'; none: all are answered
  int threads = 256;                  // calls that run at once; others wait
  std::size_t body_bytes = 64 << 20;  // of a message at most
};

/// A server that answers. An interface, so that a command without gRPC does not link it; shown, so
/// that command and module mean the same class.
class SINTER_API GrpcServer {
 public:
  /// Calls that run end first, if abort() was not called.
  virtual ~GrpcServer() = default;

  virtual int port() const = 0;
  /// From any thread: the server is not ready, and inference is refused (UNAVAILABLE).
  virtual void begin_drain() = 0;
  /// From any thread: calls that run.
  virtual int answering() const = 0;
  /// From any thread: cancels calls, and takes no more.
  virtual void abort() = 0;
};

/// Models that generate text have HTTP alone. Throws Error(kUsage) if the address cannot be had.
std::unique_ptr<GrpcServer> start_grpc_server(ModelRegistry& models, const GrpcOptions& options);

}  // namespace sinter::tools
