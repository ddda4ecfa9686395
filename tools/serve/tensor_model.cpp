#include "tools/serve/tensor_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/format_error.h"

namespace sinter::tools {

TensorModel::TensorModel(const Plan& plan, const SessionOptions& options, int sessions,
                         std::int64_t waiting)
    : plan_(plan), most_waiting_(waiting) {
  if (!plan.states().empty())
    throw Error(ErrorCode::kUnsupported,
                "the plan keeps states between runs, and is no decoder of texts: requests of many "
                "clients would share them");
  for (int i = 0; i < sessions; ++i) free_.push_back(std::make_unique<Session>(plan, options));
}

std::unique_ptr<Session> TensorModel::take() {
  std::unique_lock lock(mutex_);
  if (free_.empty() && stats_.waiting >= most_waiting_)
    throw QueueFullError(ErrorCode::kUsage,
                         fmt::format("{} requests wait already", stats_.waiting));
  ++stats_.requests;
  ++stats_.waiting;
  freed_.wait(lock, [&] { return !free_.empty(); });
  --stats_.waiting;
  ++stats_.running;
  auto session = std::move(free_.back());
  free_.pop_back();
  return session;
}

void TensorModel::give_back(std::unique_ptr<Session> session) {
  const std::lock_guard lock(mutex_);
  --stats_.running;
  free_.push_back(std::move(session));
  freed_.notify_one();
}

std::vector<OwnedTensor> TensorModel::infer(const std::map<std::string, OwnedTensor>& inputs) {
  for (const auto& [name, _] : inputs)
    if (std::ranges::find(plan_.inputs(), name, &BindingInfo::name) == plan_.inputs().end())
      throw usage_error("the model has no input '{}'", name);
  for (const BindingInfo& input : plan_.inputs())
    if (!inputs.contains(input.name)) throw usage_error("input '{}' is missing", input.name);
  auto session = take();
  const auto start = std::chrono::steady_clock::now();
  std::vector<OwnedTensor> outputs;
  try {
    for (const auto& [name, tensor] : inputs) session->set_input(name, tensor.view());
    session->run();
    for (std::size_t i = 0; i < plan_.outputs().size(); ++i) {
      const TensorView& view = session->output(i);
      OwnedTensor& output = outputs.emplace_back();
      output.dtype = view.dtype;
      output.shape = view.shape;
      output.data.resize(view.byte_count());
      if (!output.data.empty()) std::memcpy(output.data.data(), view.data, output.data.size());
    }
  } catch (...) {
    give_back(std::move(session));
    const std::lock_guard lock(mutex_);
    ++stats_.failed;
    throw;
  }
  give_back(std::move(session));
  const std::lock_guard lock(mutex_);
  stats_.run.add(std::chrono::steady_clock::now() - start);
  return outputs;
}

TensorModelStats TensorModel::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace sinter::tools
