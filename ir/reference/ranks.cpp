// SPDX-License-Identifier: Apache-2.0
#include "ir/ranks/ranks.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/reference/evaluate.h"

namespace sinter::ir {
namespace {

/// Thrown to ranks that wait for one that has failed.
struct OtherRankFailed {};

/// Where the ranks meet, one collective after the other.
class Meeting {
 public:
  explicit Meeting(std::size_t ranks) : arrived_values_(ranks) {}

  std::vector<Tensor> meet(std::size_t rank, const Tensor& own) {
    std::unique_lock lock(mutex_);
    arrived_values_[rank] = own;
    const std::size_t round = round_;
    if (++arrived_ == arrived_values_.size()) {
      // The next round ends when all have come to it: behind this one's last reader.
      values_ = arrived_values_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || has_left_; });
    if (round_ == round) throw OtherRankFailed();
    return values_;
  }

  /// A rank has ended: it comes to no further collective.
  void leave() {
    const std::lock_guard lock(mutex_);
    has_left_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tensor> arrived_values_, values_;
  std::size_t arrived_ = 0, round_ = 0;
  bool has_left_ = false;
};

}  // namespace

std::vector<std::vector<Tensor>> evaluate_ranks(const Graph& graph,
                                                std::span<const std::vector<Tensor>> inputs,
                                                const EvaluateOptions& options) {
  if (std::ssize(inputs) != rank_count(graph))
    throw Error(ErrorCode::kUsage, fmt::format("graph '{}' is for {} ranks, found inputs of {}",
                                               graph.name(), rank_count(graph), inputs.size()));
  const std::size_t ranks = inputs.size();
  Meeting meeting(ranks);
  std::vector<std::vector<Tensor>> results(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<bool> waited(ranks, false);
  std::mutex mutex;  // guards waited, which shares words
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const EvaluatingRank rank{static_cast<std::int64_t>(r),
                                [&, r](const Tensor& own) { return meeting.meet(r, own); }};
      EvaluateOptions own = options;
      own.rank = &rank;
      try {
        results[r] = evaluate(graph, inputs[r], own);
      } catch (const OtherRankFailed&) {
        const std::lock_guard lock(mutex);
        waited[r] = true;
      } catch (...) {
        errors[r] = std::current_exception();
      }
      meeting.leave();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (const auto rank = std::ranges::find(waited, true); rank != waited.end())
    throw Error(ErrorCode::kInternal, fmt::format("rank {} waits at a collective to which another "
                                                  "does not come",
                                                  rank - waited.begin()));
  return results;
}

}  // namespace sinter::ir
