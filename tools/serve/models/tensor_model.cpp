// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/tensor_model.h"

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
  if (options_.pads) {
    const auto is_matrix = [&](const BindingInfo& input) {
      return !rows_of(input).empty() && input.shape.size() >= 2 &&
             input.shape[1].min < input.shape[1].max;
    };
    is_batched_ = std::ranges::all_of(plan_.inputs(), is_matrix);
    for (const BindingInfo& input : plan_.inputs()) {
      if (!is_batched_) break;
      options_.batch_rows = std::min(options_.batch_rows, input.shape[0].max);
      most_columns_ = std::min(most_columns_, input.shape[1].max);
    }
    return;
  }
  const std::string rows = rows_of(plan_.inputs()[0]);
  const auto has_rows = [&](const BindingInfo& binding) { return rows_of(binding) == rows; };
  if (rows.empty() || !std::ranges::all_of(plan_.inputs(), has_rows) ||
      !std::ranges::all_of(plan_.outputs(), has_rows))
    return;
  options_.batch_rows = std::min(options_.batch_rows, plan_.inputs()[0].shape[0].max);
  is_batched_ = options_.batch_rows > 1;
}

/// Of a model that pads: whether the second dimension is that of the inputs.
bool TensorModel::has_columns(const BindingInfo& binding) const {
  if (binding.shape.size() < 2 || binding.shape[1].min >= binding.shape[1].max) return false;
  return std::ranges::any_of(plan_.inputs(), [&](const BindingInfo& input) {
    return input.shape[1].text == binding.shape[1].text;
  });
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
    const std::size_t padded = pads() ? 1 : 0;
    if (padded > 0) {
      agrees = agrees && tensor.shape.size() >= 2 &&
               (request.columns == 0 || request.columns == tensor.shape[1]) &&
               tensor.shape[1] <= most_columns_;
      if (!agrees) continue;
      request.columns = tensor.shape[1];
    }
    const auto first = tensor.shape.begin() + 1 + static_cast<std::ptrdiff_t>(padded);
    request.kind +=
        fmt::format("{} {};", to_string(tensor.dtype), fmt::join(first, tensor.shape.end(), ","));
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
  std::int64_t longest = 0, elements = 0;  // of what is padded
  for (const Request* request : batch) {
    longest = std::max(longest, request->columns);
    elements += request->rows * request->columns;
  }
  std::erase_if(waiting_, [&](Request* other) {
    if (other->kind != batch[0]->kind || rows + other->rows > options_.batch_rows) return false;
    const std::int64_t wide = std::max(longest, other->columns),
                       all = elements + other->rows * other->columns;
    if (wastes(rows + other->rows, wide, all)) return false;
    longest = wide;
    elements = all;
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

namespace {

/// The least size of a ladder that is not below `size`, and not above `most`: powers of two, from
/// `halves` on also those between them.
std::int64_t on_ladder(std::int64_t size, std::int64_t least, std::int64_t halves,
                       std::int64_t most) {
  std::int64_t step = least;
  while (step < size) {
    if (step >= halves && step + step / 2 >= size) return std::min(step + step / 2, most);
    step *= 2;
  }
  return std::min(step, most);
}

}  // namespace

TensorModel::Extent TensorModel::extent_of(const std::vector<Request*>& batch) const {
  constexpr std::int64_t kLeastColumns = 16;
  Extent extent;
  for (const Request* request : batch) {
    extent.rows += request->rows;
    extent.columns = std::max(extent.columns, request->columns);
  }
  if (!options_.has_ladder || extent.columns == 0 || batch[0]->kind.empty()) return extent;
  extent.columns = on_ladder(extent.columns, kLeastColumns, kLeastColumns, most_columns_);
  if (extent.rows < options_.batch_rows)
    extent.rows = on_ladder(extent.rows, 1, options_.batch_rows, options_.batch_rows);
  return extent;
}

/// An input of all requests, one behind the other, with zeros behind short rows. Rows that nobody
/// asked for are the last one again.
OwnedTensor TensorModel::joined(const std::string& input, const std::vector<Request*>& batch,
                                const Extent& extent) {
  const OwnedTensor& first = batch[0]->inputs.at(input);
  OwnedTensor all{first.dtype, first.shape, {}};
  all.shape[0] = extent.rows;
  if (extent.columns > 0) all.shape[1] = extent.columns;
  std::size_t whole = 0;  // bytes of a row
  for (const Request* request : batch) {
    const OwnedTensor& own = request->inputs.at(input);
    const auto rows = static_cast<std::size_t>(request->rows);
    const std::size_t row = own.data.size() / rows;
    whole = extent.columns > 0 ? row / static_cast<std::size_t>(request->columns) *
                                     static_cast<std::size_t>(extent.columns)
                               : row;
    for (std::size_t r = 0; r < rows; ++r) {
      const auto begin = own.data.begin() + static_cast<std::ptrdiff_t>(r * row);
      all.data.insert(all.data.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
      all.data.resize(all.data.size() + whole - row);
    }
  }
  const std::size_t size = whole * static_cast<std::size_t>(extent.rows);
  const std::vector<std::byte> last(all.data.end() - static_cast<std::ptrdiff_t>(whole),
                                    all.data.end());
  while (all.data.size() < size) all.data.insert(all.data.end(), last.begin(), last.end());
  return all;
}

void TensorModel::run_together(Session& session, const std::vector<Request*>& batch) {
  const Extent extent = extent_of(batch);
  const bool as_given =
      batch.size() == 1 && extent.columns == batch[0]->columns && extent.rows == batch[0]->rows;
  std::vector<OwnedTensor> together;  // as long as the session may read them
  together.reserve(plan_.inputs().size());
  for (const BindingInfo& input : plan_.inputs()) {
    if (as_given)
      session.set_input(input.name, batch[0]->inputs.at(input.name).view());
    else
      session.set_input(input.name,
                        together.emplace_back(joined(input.name, batch, extent)).view());
  }
  session.run();
  for (Request* request : batch) request->outputs.clear();
  for (std::size_t i = 0; i < plan_.outputs().size(); ++i) {
    const TensorView& view = session.output(i);
    const auto* from = static_cast<const std::byte*>(view.data);
    if (as_given) {
      batch[0]->outputs.push_back({view.dtype, view.shape, {from, from + view.byte_count()}});
      continue;
    }
    const std::size_t row = view.byte_count() / static_cast<std::size_t>(extent.rows);
    const bool cuts = extent.columns > 0 && has_columns(plan_.outputs()[i]);
    for (Request* request : batch) {
      OwnedTensor& output = request->outputs.emplace_back();
      output.dtype = view.dtype;
      output.shape = view.shape;
      output.shape[0] = request->rows;
      std::size_t kept = row;
      if (cuts) {
        output.shape[1] = request->columns;
        kept = row / static_cast<std::size_t>(extent.columns) *
               static_cast<std::size_t>(request->columns);
      }
      for (std::int64_t r = 0; r < request->rows; ++r, from += row)
        output.data.insert(output.data.end(), from, from + kept);
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
