// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/grpc/grpc_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <inference.grpc.pb.h>
#include <sinter/sinter.h>

#include "runtime/format_error.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/api_key.h"
#include "tools/serve/api/tensor_types.h"

namespace sinter::tools {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

StatusCode code_of(int http_status) {
  switch (http_status) {
    case 400: return StatusCode::INVALID_ARGUMENT;
    case 401: return StatusCode::UNAUTHENTICATED;
    case 404: return StatusCode::NOT_FOUND;
    case 413:
    case 429: return StatusCode::RESOURCE_EXHAUSTED;
    case 503: return StatusCode::UNAVAILABLE;
    default: return StatusCode::INTERNAL;
  }
}
Status status_of(const ApiError& error) { return {code_of(error.status()), error.what()}; }

template <class Field>
void append_numbers(const Field& field, std::vector<std::byte>& to) {
  const auto bytes = std::as_bytes(std::span(field.data(), static_cast<std::size_t>(field.size())));
  to.insert(to.end(), bytes.begin(), bytes.end());
}
/// Numbers that the protocol sends wider than they are.
template <class Narrow, class Field>
void append_narrow(const std::string& tensor, const Field& field, std::vector<std::byte>& to) {
  std::vector<Narrow> narrow;
  for (const auto value : field) {
    if (!std::in_range<Narrow>(value))
      fail_tensor(tensor, fmt::format("has {}, which its type cannot hold", value));
    narrow.push_back(static_cast<Narrow>(value));
  }
  const auto bytes = std::as_bytes(std::span(narrow));
  to.assign(bytes.begin(), bytes.end());
}

/// Of the field that the protocol has for the type.
std::vector<std::byte> bytes_of(const std::string& tensor, DType dtype,
                                const inference::InferTensorContents& from) {
  std::vector<std::byte> to;
  switch (dtype) {
    case DType::kBool: append_numbers(from.bool_contents(), to); break;
    case DType::kInt8: append_narrow<std::int8_t>(tensor, from.int_contents(), to); break;
    case DType::kInt16: append_narrow<std::int16_t>(tensor, from.int_contents(), to); break;
    case DType::kInt32: append_numbers(from.int_contents(), to); break;
    case DType::kInt64: append_numbers(from.int64_contents(), to); break;
    case DType::kUInt8: append_narrow<std::uint8_t>(tensor, from.uint_contents(), to); break;
    case DType::kUInt16: append_narrow<std::uint16_t>(tensor, from.uint_contents(), to); break;
    case DType::kUInt32: append_numbers(from.uint_contents(), to); break;
    case DType::kUInt64: append_numbers(from.uint64_contents(), to); break;
    case DType::kFloat32: append_numbers(from.fp32_contents(), to); break;
    case DType::kFloat64: append_numbers(from.fp64_contents(), to); break;
    default:
      fail_tensor(tensor, fmt::format("is {}, which the protocol sends in raw_input_contents alone",
                                      protocol_name(dtype)));
  }
  return to;
}

std::map<std::string, OwnedTensor> inputs_of(const inference::ModelInferRequest& request) {
  const bool is_raw = request.raw_input_contents_size() > 0;
  if (is_raw && request.raw_input_contents_size() != request.inputs_size())
    throw ApiError(400, fmt::format("there are {} raw_input_contents for {} inputs",
                                    request.raw_input_contents_size(), request.inputs_size()));
  std::map<std::string, OwnedTensor> inputs;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const auto& input = request.inputs(i);
    const std::string& name = input.name();
    const auto type = type_of_protocol(input.datatype());
    if (!type)
      fail_tensor(name,
                  fmt::format("has the datatype '{}', which is not supported", input.datatype()));
    OwnedTensor tensor;
    tensor.dtype = *type;
    tensor.shape.assign(input.shape().begin(), input.shape().end());
    const std::size_t count = checked_count(name, tensor.shape);
    if (is_raw) {
      const std::string& raw = request.raw_input_contents(i);
      const auto* bytes = reinterpret_cast<const std::byte*>(raw.data());
      tensor.data.assign(bytes, bytes + raw.size());
    } else {
      tensor.data = bytes_of(name, *type, input.contents());
    }
    check_bytes(name, tensor, count);
    if (!inputs.emplace(name, std::move(tensor)).second) fail_tensor(name, "is there twice");
  }
  return inputs;
}

/// Indices of the plan's outputs that are wanted: all if none is named.
std::vector<std::size_t> outputs_of(const inference::ModelInferRequest& request, const Plan& plan) {
  const auto& all = plan.outputs();
  std::vector<std::size_t> wanted;
  for (const auto& output : request.outputs()) {
    const auto found = std::ranges::find(all, output.name(), &BindingInfo::name);
    if (found == all.end()) fail_tensor(output.name(), "is no output of the model");
    const auto index = static_cast<std::size_t>(found - all.begin());
    if (std::ranges::find(wanted, index) != wanted.end())
      fail_tensor(output.name(), "is asked for twice");
    wanted.push_back(index);
  }
  if (wanted.empty())
    for (std::size_t i = 0; i < all.size(); ++i) wanted.push_back(i);
  return wanted;
}

/// Protobuf's messages, and so gRPC's, have less than 2 GiB: a larger one ends the process.
void check_answer(const std::vector<OwnedTensor>& outputs, const std::vector<std::size_t>& wanted,
                  const Plan& plan) {
  constexpr std::size_t kMost = INT32_MAX - (1 << 20);
  std::size_t bytes = 0;
  for (const std::size_t i : wanted) {
    constexpr std::size_t kAround = 64;  // lengths, type and dimensions
    bytes += outputs[i].data.size() + plan.outputs()[i].name.size() + kAround +
             10 * outputs[i].shape.size();
  }
  if (bytes > kMost)
    throw ApiError(413, fmt::format("the answer has {} bytes, and one of gRPC has {} at most: ask "
                                    "for fewer outputs or rows, or over HTTP",
                                    bytes, kMost));
}

void describe(const BindingInfo& binding,
              inference::ModelMetadataResponse::TensorMetadata& metadata) {
  metadata.set_name(binding.name);
  metadata.set_datatype(protocol_name(binding.dtype));
  for (const std::int64_t dim : protocol_shape(binding)) metadata.add_shape(dim);
}

/// The protocol's calls.
struct Service final : inference::GRPCInferenceService::Service {
  Service(ModelRegistry& registry, std::vector<std::string> keys)
      : models(registry), api_keys(std::move(keys)) {}

  ModelRegistry& models;
  std::vector<std::string> api_keys;
  std::atomic<bool> draining = false;

  mutable std::atomic<int> answering = 0;

  struct Answering {
    explicit Answering(std::atomic<int>& number) : count(number) { ++count; }
    ~Answering() { --count; }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;
    std::atomic<int>& count;
  };

  /// What `handle` throws as a status, for who has a key.
  template <class Handle>
  Status answer(const ServerContext& context, const Handle& handle) const {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find("authorization");
    const std::string given =
        found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
    if (!is_admitted(api_keys, given)) return {StatusCode::UNAUTHENTICATED, kNoKey};
    const Answering counts(answering);
    try {
      handle();
    } catch (const ApiError& error) {
      return status_of(error);
    } catch (const Error& error) {
      return status_of(ApiError::of(error));
    } catch (const std::exception& error) {
      return {StatusCode::INTERNAL, error.what()};
    }
    return Status::OK;
  }
  std::shared_ptr<ServedModel> find(const std::string& name, const std::string& version) const {
    auto model = models.find(name);
    if (!version.empty() && version != kModelVersion)
      throw ApiError(
          404, fmt::format("'{}' has no version '{}', only {}", name, version, kModelVersion));
    return model;
  }
  static TensorModel& tensors_of(const ServedModel& model) {
    if (model.tensors() == nullptr)
      throw ApiError(400, fmt::format("'{}' generates text: it answers POST /v1/completions over "
                                      "HTTP",
                                      model.name()));
    return *model.tensors();
  }

  Status ServerLive(ServerContext*, const inference::ServerLiveRequest*,
                    inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return Status::OK;
  }
  Status ServerReady(ServerContext*, const inference::ServerReadyRequest*,
                     inference::ServerReadyResponse* response) override {
    response->set_ready(!draining && models.state().is_ready);
    return Status::OK;
  }
  Status ModelReady(ServerContext* context, const inference::ModelReadyRequest* request,
                    inference::ModelReadyResponse* response) override {
    return answer(*context, [&] {
      const auto model = find(request->name(), request->version());
      response->set_ready(!draining && model->state().is_ready);
    });
  }
  Status ServerMetadata(ServerContext* context, const inference::ServerMetadataRequest*,
                        inference::ServerMetadataResponse* response) override {
    return answer(*context, [&] {
      response->set_name("sinter");
      response->set_version(std::string(version()));
      response->add_extensions("model_repository");
    });
  }
  Status ModelMetadata(ServerContext* context, const inference::ModelMetadataRequest* request,
                       inference::ModelMetadataResponse* response) override {
    return answer(*context, [&] {
      const auto model = find(request->name(), request->version());
      const Plan& plan = tensors_of(*model).plan();
      response->set_name(model->name());
      response->add_versions(kModelVersion);
      response->set_platform(kModelPlatform);
      for (const BindingInfo& input : plan.inputs()) describe(input, *response->add_inputs());
      for (const BindingInfo& output : plan.outputs()) describe(output, *response->add_outputs());
    });
  }
  Status ModelInfer(ServerContext* context, const inference::ModelInferRequest* request,
                    inference::ModelInferResponse* response) override {
    return answer(*context, [&] {
      if (draining) throw ApiError(503, "the server is being shut down");
      const auto model = find(request->model_name(), request->model_version());
      TensorModel& tensors = tensors_of(*model);
      const auto inputs = inputs_of(*request);
      const std::vector<std::size_t> wanted = outputs_of(*request, tensors.plan());
      std::vector<OwnedTensor> outputs = tensors.infer(inputs);
      check_answer(outputs, wanted, tensors.plan());
      response->set_model_name(model->name());
      response->set_model_version(kModelVersion);
      response->set_id(request->id());
      for (const std::size_t i : wanted) {
        const OwnedTensor tensor = std::move(outputs[i]);  // goes when it is copied
        auto& output = *response->add_outputs();
        output.set_name(tensors.plan().outputs()[i].name);
        output.set_datatype(protocol_name(tensor.dtype));
        for (const std::int64_t dim : tensor.shape) output.add_shape(dim);
        response->add_raw_output_contents(tensor.data.data(), tensor.data.size());
      }
    });
  }
  Status RepositoryIndex(ServerContext* context, const inference::RepositoryIndexRequest*,
                         inference::RepositoryIndexResponse* response) override {
    return answer(*context, [&] {
      for (const auto& each : models.all()) {
        auto& model = *response->add_models();
        model.set_name(each->name());
        model.set_version(kModelVersion);
        const ModelState state = each->state();
        model.set_state(state.is_ready ? "READY" : "UNAVAILABLE");
        model.set_reason(state.reason);
      }
      for (const std::string& name : models.unloaded()) {
        auto& model = *response->add_models();
        model.set_name(name);
        model.set_version(kModelVersion);
        model.set_state("UNAVAILABLE");
        model.set_reason("unloaded");
      }
    });
  }
  Status RepositoryModelLoad(ServerContext* context,
                             const inference::RepositoryModelLoadRequest* request,
                             inference::RepositoryModelLoadResponse*) override {
    return answer(*context, [&] { models.reload(request->model_name()); });
  }
  Status RepositoryModelUnload(ServerContext* context,
                               const inference::RepositoryModelUnloadRequest* request,
                               inference::RepositoryModelUnloadResponse*) override {
    return answer(*context, [&] { models.unload(request->model_name()); });
  }
};

class RunningServer final : public GrpcServer {
 public:
  RunningServer(ModelRegistry& models, const GrpcOptions& options);
  ~RunningServer() override {
    if (ending_.valid()) ending_.wait();
    if (server_ != nullptr) server_->Shutdown();
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  int port() const override { return port_; }
  void begin_drain() override { service_.draining = true; }
  int answering() const override { return service_.answering; }
  void abort() override {
    service_.draining = true;
    if (!ending_.valid())
      ending_ = std::async(std::launch::async,
                           [this] { server_->Shutdown(std::chrono::system_clock::now()); });
  }

 private:
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::future<void> ending_;  // waits for calls that run
};

RunningServer::RunningServer(ModelRegistry& models, const GrpcOptions& options)
    : service_(models, options.api_keys) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(fmt::format("{}:{}", options.host, options.port),
                           grpc::InsecureServerCredentials(), &port_);
  // Without it several servers share a port without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.body_bytes));
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("sinter");
  quota.SetMaxThreads(std::max(options.threads, 4));  // some of them the library's own
  builder.SetResourceQuota(quota);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0)
    throw usage_error(
        "cannot listen for gRPC at {}:{}: the address is not this machine's, or the port is taken "
        "(--grpc-port 0 finds a free one)",
        options.host, options.port);
}

}  // namespace

std::unique_ptr<GrpcServer> start_grpc_server(ModelRegistry& models, const GrpcOptions& options) {
  return std::make_unique<RunningServer>(models, options);
}

}  // namespace sinter::tools
