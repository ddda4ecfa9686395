// Loop programs by definition: one element at a time, in double and int64.
#pragma once

#include <cstddef>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::testing {

/// Runs `program` on `buffers` (by plan buffer; the bytes are replaced by what it stores).
void run_naively(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
                 const std::vector<std::int64_t>& expressions,
                 std::vector<std::vector<std::byte>>& buffers);

/// Element `index` of `bytes`, and the inverse (rounding to nearest even).
double element(DType type, const std::vector<std::byte>& bytes, std::int64_t index);
void set_element(DType type, std::vector<std::byte>& bytes, std::int64_t index, double value);

}  // namespace sinter::testing
