// Timing of candidates: what cuBLASLt's algorithms and a step's tactics are chosen by.
#pragma once

#include <functional>
#include <optional>

#include "graphs/device.h"
#include "runtime/cuda/tactics/flush_buffer.h"

namespace sinter::runtime {

/// Median time in microseconds of what `launch` puts on `stream`, caches cold, after one run that
/// loads what is loaded at first use; nothing if `launch` returns false.
std::optional<double> cold_time(const graphs::ContextPtr& context, CUstream stream,
                                FlushBuffer& flush, const std::function<bool()>& launch);

}  // namespace sinter::runtime
