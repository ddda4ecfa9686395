#ifdef SINTER_WITH_CUDA
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "cuda_check.h"
#include "cuda_random_programs.h"

namespace sinter::test {
namespace {

using ir::Dim;
using plan::fb::ExprOp;

TEST(CudaEmulation, RandomPrograms) {
  CudaCheck check({{"s", {1, 4096, nullptr}}, {"t", {1, INT64_MAX, nullptr}}});
  for (std::uint64_t seed = 0; seed < 250; ++seed)
    check.add(fmt::format("random_{}", seed), random_program(check.exprs, seed),
              {{{"s", 16}, {"t", 8}}, {{"s", 37}, {"t", 21}}});
  EXPECT_EQ(check.run(), "");
  for (const auto& [schedule, times] : check.schedules_run())
    fmt::print("{:5} {}\n", times, schedule);
}

}  // namespace
}  // namespace sinter::test
#endif
