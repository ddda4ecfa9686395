#include "runtime/cuda/tactics/cold_time.h"

#include <algorithm>
#include <vector>

#include "graphs/stream.h"

namespace sinter::runtime {

std::optional<double> cold_time(const graphs::ContextPtr& context, CUstream stream,
                                FlushBuffer& flush, const std::function<bool()>& launch) {
  constexpr int kRepeats = 9;
  constexpr double kLongMicroseconds = 2000;
  if (!launch()) return std::nullopt;
  const graphs::Event start(context, true);
  const graphs::Event stop(context, true);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    flush.flush_if_possible(stream);
    start.record(stream);
    if (!launch()) return std::nullopt;
    stop.record(stream);
    stop.synchronize();
    times.push_back(stop.microseconds_since(start));
    if (times.back() > kLongMicroseconds) break;  // long enough to be measured once
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace sinter::runtime
