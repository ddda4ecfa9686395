#include "tools/serve/tensor_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/format_error.h"

namespace sinter::tools {

TensorModel::TensorModel(const Plan& plan, const SessionOptions& session,
                         const TensorModelOptions& options)
    : plan_(plan), options_(options) {
  if (!plan.states().empty())
    throw Error(ErrorCode::kUnsupported,
                "the plan keeps states between runs, and is no decoder of texts: requests of many "
                "clients would share them");
  find_rows();
  for (int i = 0; i < options_.sessions; ++i) {
    Session& own = sessions_.emplace_back(plan, session);
    workers_.emplace_back([this, &own](const std::stop_token& stop) { work(own, stop); });
  }
}

TensorModel::~TensorModel() = default;

/// Rows are the first dimension if all inputs and outputs have the same there, of open size.
void TensorModel::find_rows() {
  if (options_.batch_rows <= 1 || plan_.inputs().empty()) return;
  const auto rows_of = [](const BindingInfo& binding) {
    const bool is_open = !binding.shape.empty() && binding.shape[0].min < binding.shape[0].max;
    return is_open && !binding.is_read_by_host ? binding.shape[0].text : std::string();
  };
  const std::string rows = rows_of(plan_.inputs()[0]);
  const auto has_rows = [&](const BindingInfo& binding) { return rows_of(binding) == rows; };
  if (rows.empty() || !std::ranges::all_of(plan_.inputs(), has_rows) ||
      !std::ranges::all_of(plan_.outputs(), has_rows))
    return;
  options_.batch_rows = std::min(options_.batch_rows, plan_.inputs()[0].shape[0].max);
  is_batched_ = options_.batch_rows > 1;
}

void TensorModel::describe(Request& request) const {
  for (const auto& [name, _] : request.inputs)
    if (std::ranges::find(plan_.inputs(), name, &BindingInfo::name) == plan_.inputs().end())
      throw usage_error("the model has no input '{}'", name);
  std::int64_t rows = -1;
  bool agrees = is_batched_;
  for (const BindingInfo& input : plan_.inputs()) {
    const auto found = request.inputs.find(input.name);
    if (found == request.inputs.end()) throw usage_error("input '{}' is missing", input.name);
    const OwnedTensor& tensor = found->second;
    if (tensor.shape.empty()) {
      agrees = false;
      continue;
    }
    agrees = agrees && (rows < 0 || rows == tensor.shape[0]);
    rows = tensor.shape[0];
    request.kind += fmt::format("{} {};", to_string(tensor.dtype),
                                fmt::join(tensor.shape.begin() + 1, tensor.shape.end(), ","));
  }
  // What does not fit runs by itself, and is refused by the session.
  if (!agrees || rows < 1)
    request.kind.clear();
  else
    request.rows = rows;
}

std::vector<OwnedTensor> TensorModel::infer(const std::map<std::string, OwnedTensor>& inputs) {
  Request request{.inputs = inputs};
  describe(request);
  std::unique_lock lock(mutex_);
  if (std::ssize(waiting_) >= options_.waiting)
    throw QueueFullError(ErrorCode::kUsage,
                         fmt::format("{} requests wait already", waiting_.size()));
  ++stats_.requests;
  request.arrival = Clock::now();
  waiting_.push_back(&request);
  arrived_.notify_all();
  done_.wait(lock, [&] { return request.is_done; });
  if (request.error) std::rethrow_exception(request.error);
  return std::move(request.outputs);
}

void TensorModel::work(Session& session, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (arrived_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
    const std::vector<Request*> batch = gather(lock, stop);
    const auto start = Clock::now();
    for (const Request* request : batch) stats_.wait.add(start - request->arrival);
    stats_.running += std::ssize(batch);
    lock.unlock();
    run(session, batch);
    lock.lock();
    stats_.running -= std::ssize(batch);
    stats_.run.add(Clock::now() - start);
    ++stats_.runs;
    for (Request* request : batch) {
      stats_.rows += static_cast<std::uint64_t>(request->rows);
      if (request->error) ++stats_.failed;
      request->is_done = true;
    }
    done_.notify_all();
  }
}

/// The request that came first, and others of its kind: those that wait, and those that come until
/// it has waited for batch_delay.
std::vector<TensorModel::Request*> TensorModel::gather(std::unique_lock<std::mutex>& lock,
                                                       const std::stop_token& stop) {
  std::vector<Request*> batch = {waiting_.front()};
  waiting_.pop_front();
  std::int64_t rows = batch[0]->rows;
  if (batch[0]->kind.empty()) return batch;
  const auto end = batch[0]->arrival + options_.batch_delay;
  take_alike(batch, rows);
  while (rows < options_.batch_rows && Clock::now() < end) {
    const std::size_t known = waiting_.size();
    // What comes is looked at; what another thread takes is not missed.
    arrived_.wait_until(lock, stop, end, [&] { return waiting_.size() > known; });
    take_alike(batch, rows);
    if (stop.stop_requested()) break;
  }
  return batch;
}

void TensorModel::take_alike(std::vector<Request*>& batch, std::int64_t& rows) {
  std::erase_if(waiting_, [&](Request* other) {
    if (other->kind != batch[0]->kind || rows + other->rows > options_.batch_rows) return false;
    batch.push_back(other);
    rows += other->rows;
    return true;
  });
}

void TensorModel::run(Session& session, const std::vector<Request*>& batch) {
  try {
    run_together(session, batch);
  } catch (...) {
    if (batch.size() == 1) {
      batch[0]->error = std::current_exception();
      return;
    }
    // Whose fault it is shows by itself.
    for (Request* request : batch) run(session, {request});
  }
}

void TensorModel::run_together(Session& session, const std::vector<Request*>& batch) {
  std::vector<OwnedTensor> together;  // as long as the session may read them
  for (const BindingInfo& input : plan_.inputs()) {
    OwnedTensor& all = together.emplace_back();
    const OwnedTensor& first = batch[0]->inputs.at(input.name);
    if (batch.size() == 1) {
      session.set_input(input.name, first.view());
      continue;
    }
    all.dtype = first.dtype;
    all.shape = first.shape;
    all.shape[0] = 0;
    for (const Request* request : batch) {
      const OwnedTensor& own = request->inputs.at(input.name);
      all.shape[0] += own.shape[0];
      all.data.insert(all.data.end(), own.data.begin(), own.data.end());
    }
    session.set_input(input.name, all.view());
  }
  session.run();
  std::int64_t rows = 0;
  for (const Request* request : batch) rows += request->rows;
  for (Request* request : batch) request->outputs.clear();
  for (std::size_t i = 0; i < plan_.outputs().size(); ++i) {
    const TensorView& view = session.output(i);
    const auto* from = static_cast<const std::byte*>(view.data);
    for (Request* request : batch) {
      OwnedTensor& output = request->outputs.emplace_back();
      output.dtype = view.dtype;
      output.shape = view.shape;
      std::size_t bytes = view.byte_count();
      if (batch.size() > 1) {
        output.shape[0] = request->rows;
        bytes = bytes / static_cast<std::size_t>(rows) * static_cast<std::size_t>(request->rows);
      }
      output.data.assign(from, from + bytes);
      from += bytes;
    }
  }
}

TensorModelStats TensorModel::stats() const {
  const std::lock_guard lock(mutex_);
  TensorModelStats stats = stats_;
  stats.waiting = std::ssize(waiting_);
  return stats;
}

}  // namespace sinter::tools
