// SPDX-License-Identifier: Apache-2.0
// Messages of gRPC from bytes, over a socket: the first byte chooses the call, the rest is its
// message. The server answers with a status, none of an internal error, and goes on.
// SINTER_FUZZ_TENSORS is the plan that it serves.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "runtime/sandbox/sandbox.h"
#include "tests/fuzz/growth.h"
#include "tools/serve/grpc/grpc_server.h"

namespace {

using namespace sinter;

/// Inference is what has most to read.
constexpr std::array kCalls = {"ModelInfer",
                               "ModelInfer",
                               "ModelInfer",
                               "ModelMetadata",
                               "ModelReady",
                               "RepositoryModelLoad",
                               "RepositoryModelUnload",
                               "RepositoryIndex"};

class Server {
 public:
  Server() {
    tools::ServedModelOptions options;
    options.plan = std::getenv("SINTER_FUZZ_TENSORS");
    options.session.threads = 1;
    models_.load("tiny", options);
    tools::GrpcOptions grpc;
    grpc.threads = 8;
    grpc.body_bytes = 1 << 20;
    server_ = tools::start_grpc_server(models_, grpc);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
  }

  grpc::Status ask(const std::string& call, const std::uint8_t* data, std::size_t size) {
    const grpc::Slice slice(data, size);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    grpc::CompletionQueue queue;
    auto reader = stub_->PrepareUnaryCall(&context, "/inference.GRPCInferenceService/" + call,
                                          request, &queue);
    reader->StartCall();
    grpc::Status status;
    reader->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool is_ok = false;
    queue.Next(&tag, &is_ok);
    return status;
  }

  /// A call may have unloaded it.
  void put_back() {
    if (models_.all().empty()) models_.reload("tiny");
  }

 private:
  tools::ModelRegistry models_;
  std::unique_ptr<tools::GrpcServer> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

Server& server() {
  static auto& made = *new Server;  // gRPC's threads outlive main
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sandbox::start();
  server();
  tests::watch_growth();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tests::grows_from_here();
  const std::string call = kCalls[data[0] % kCalls.size()];
  const grpc::Status status = server().ask(call, data + 1, size - 1);
  // gRPC's own, of bytes that are no message.
  const bool is_unreadable = status.error_message().empty();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
      (status.error_code() == grpc::StatusCode::INTERNAL && !is_unreadable)) {
    std::fprintf(stderr, "%s: %d %s\n", call.c_str(), status.error_code(),
                 status.error_message().c_str());
    std::abort();
  }
  server().put_back();
  return 0;
}
