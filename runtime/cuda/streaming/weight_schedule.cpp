// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/streaming/weight_schedule.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

namespace sinter::runtime {
namespace {

// Smaller copies take longer to start than to run.
constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20;

std::uint64_t sum_of(std::span<const std::uint64_t> bytes, std::span<const std::size_t> weights) {
  return std::accumulate(
      weights.begin(), weights.end(), std::uint64_t{0},
      [&](std::uint64_t sum, std::size_t weight) { return sum + room_for(bytes[weight]); });
}

/// A ring whose halves fit the weights of units of at most `half` bytes; weights of larger units
/// stay resident.
struct Division {
  std::uint64_t half = 0;
  std::vector<bool> stays;
  std::uint64_t staying_bytes = 0;

  std::uint64_t least() const { return 2 * half + staying_bytes; }
};

class Chooser {
 public:
  Chooser(std::span<const std::uint64_t> bytes, std::span<const WeightRun> runs)
      : bytes_(bytes), runs_(runs), reads_(bytes.size(), 0) {
    std::set<std::uint64_t> sizes{0};
    for (const WeightRun& run : runs) {
      std::vector<std::size_t> reads(bytes.size(), 0);
      for (const WeightUnit& unit : run) {
        sizes.insert(sum_of(bytes, unit));
        for (const std::size_t weight : unit) {
          if (reads_[weight] == 0 && reads[weight] == 0) order_.push_back(weight);
          ++reads[weight];
        }
      }
      for (std::size_t i = 0; i < reads.size(); ++i) reads_[i] = std::max(reads_[i], reads[i]);
    }
    sizes_.assign(sizes.begin(), sizes.end());
  }

  std::uint64_t all_bytes() const { return sum_of(bytes_, order_); }

  /// The smallest ring that fits the budget: it leaves the most room for resident weights.
  std::optional<Division> divide(std::uint64_t budget) const {
    for (const std::uint64_t half : sizes_)
      if (Division division = divided(half); division.least() <= budget) return division;
    return std::nullopt;
  }
  std::uint64_t least() const {
    std::uint64_t least = all_bytes();
    for (const std::uint64_t half : sizes_) least = std::min(least, divided(half).least());
    return least;
  }

  WeightResidency fill(Division division, std::uint64_t budget) const {
    std::uint64_t left = budget - division.least();
    std::vector<bool>& stays = division.stays;
    const auto keep = [&](std::size_t weight) {
      const std::uint64_t size = room_for(bytes_[weight]);
      if (stays[weight] || size > left) return;
      stays[weight] = true;
      left -= size;
    };
    std::vector<std::size_t> first;
    for (const std::size_t weight : order_)
      if (reads_[weight] > 1 || bytes_[weight] < kSmallBytes) first.push_back(weight);
    std::ranges::stable_sort(first, {}, [&](std::size_t weight) { return bytes_[weight]; });
    for (const std::size_t weight : first) keep(weight);

    std::vector<std::size_t> rest;
    for (const std::size_t weight : order_)
      if (!stays[weight]) rest.push_back(weight);
    const auto all = static_cast<double>(sum_of(bytes_, rest));
    const double part = all > 0 ? std::max(0.0, all - static_cast<double>(left)) / all : 0;
    double wanted = 0, streamed = 0;  // cumulative bytes
    for (const std::size_t weight : rest) {
      const auto size = static_cast<double>(room_for(bytes_[weight]));
      wanted += part * size;
      if (streamed + size / 2 > wanted) keep(weight);
      if (!stays[weight]) streamed += size;
    }
    for (const std::size_t weight : rest) keep(weight);
    return residency(stays);
  }

  WeightResidency residency(const std::vector<bool>& stays) const {
    WeightResidency result;
    result.is_streamed.resize(bytes_.size(), false);
    for (const std::size_t weight : order_) {
      result.is_streamed[weight] = !stays[weight];
      (stays[weight] ? result.resident_bytes : result.streamed_bytes) += room_for(bytes_[weight]);
    }
    for (const WeightRun& run : runs_)
      for (WeightUnit unit : run) {
        std::erase_if(unit, [&](std::size_t weight) { return stays[weight]; });
        result.half = std::max(result.half, sum_of(bytes_, unit));
      }
    return result;
  }

 private:
  Division divided(std::uint64_t half) const {
    Division result{half, std::vector<bool>(bytes_.size(), false), 0};
    for (const WeightRun& run : runs_)
      for (const WeightUnit& unit : run) {
        if (sum_of(bytes_, unit) <= half) continue;
        for (const std::size_t weight : unit) result.stays[weight] = true;
      }
    for (const std::size_t weight : order_)
      if (result.stays[weight]) result.staying_bytes += room_for(bytes_[weight]);
    return result;
  }

  std::span<const std::uint64_t> bytes_;
  std::span<const WeightRun> runs_;
  std::vector<std::size_t> reads_;    // maximum reads in one run
  std::vector<std::size_t> order_;    // weights that are read, in the order of their first read
  std::vector<std::uint64_t> sizes_;  // sizes of units, ascending
};

/// The current batch in a half, and the previous one there. Older batches need no tracking: a
/// batch's first copy waits for the first copy of the previous batch in that half, which units read
/// later.
struct Half {
  std::vector<std::size_t> copies, before;
  std::uint64_t used = 0;
};

}  // namespace

std::uint64_t least_weight_budget(std::span<const std::uint64_t> bytes,
                                  std::span<const WeightRun> runs) {
  return Chooser(bytes, runs).least();
}

std::optional<WeightResidency> choose_resident(std::span<const std::uint64_t> bytes,
                                               std::span<const WeightRun> runs,
                                               std::uint64_t budget) {
  const Chooser chooser(bytes, runs);
  if (chooser.all_bytes() <= budget)
    return chooser.residency(std::vector<bool>(bytes.size(), true));
  std::optional<Division> division = chooser.divide(budget);
  if (!division) return std::nullopt;
  return chooser.fill(std::move(*division), budget);
}

std::uint64_t WeightSchedule::bytes(std::span<const std::uint64_t> bytes) const {
  std::uint64_t sum = 0;
  for (const WeightCopy& copy : copies) sum += bytes[copy.weight];
  return sum;
}

WeightSchedule schedule_copies(std::span<const std::uint64_t> bytes, const WeightRun& run,
                               const WeightResidency& residency) {
  WeightSchedule schedule;
  schedule.copies_of.resize(run.size());
  std::vector<std::size_t> last_reader;  // by copy
  std::array<Half, 2> halves;
  std::size_t current = 0;
  const auto find = [&](std::size_t weight, const Half& half) -> std::optional<std::size_t> {
    for (const std::size_t copy : half.copies)
      if (schedule.copies[copy].weight == weight) return copy;
    return std::nullopt;
  };
  for (std::size_t u = 0; u < run.size(); ++u) {
    std::vector<std::size_t> missing, old;  // `old`: in the other half
    const auto reads = [&](std::size_t copy) {
      schedule.copies_of[u].push_back(copy);
      last_reader[copy] = u;
    };
    for (const std::size_t weight : run[u]) {
      if (!residency.is_streamed[weight]) continue;
      if (const auto copy = find(weight, halves[current]))
        reads(*copy);
      else if (find(weight, halves[1 - current]))
        old.push_back(weight);
      else
        missing.push_back(weight);
    }
    if (halves[current].used + sum_of(bytes, missing) > residency.half) {
      // Switches to the other half, whose weights are evicted.
      current = 1 - current;
      missing.insert(missing.end(), old.begin(), old.end());
      old.clear();
      Half& half = halves[current];
      half.before = std::exchange(half.copies, {});
      half.used = 0;
    }
    for (const std::size_t weight : old) reads(*find(weight, halves[1 - current]));
    Half& half = halves[current];
    for (const std::size_t weight : missing) {
      const std::uint64_t place = current * residency.half + half.used,
                          size = room_for(bytes[weight]);
      WeightCopy copy{weight, place, u, WeightCopy::kStart};
      for (const std::size_t other : half.before) {
        const WeightCopy& gone = schedule.copies[other];
        if (gone.place >= place + size || gone.place + room_for(bytes[gone.weight]) <= place)
          continue;
        if (copy.behind == WeightCopy::kStart || copy.behind < last_reader[other])
          copy.behind = last_reader[other];
      }
      half.copies.push_back(schedule.copies.size());
      half.used += size;
      schedule.copies.push_back(copy);
      last_reader.push_back(u);
      reads(half.copies.back());
    }
  }
  return schedule;
}

}  // namespace sinter::runtime
