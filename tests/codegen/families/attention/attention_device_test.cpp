// SPDX-License-Identifier: Apache-2.0
// Schedules of attention for devices other than the one that the rules were measured on.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "attention_cases.h"
#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/attention/schedule/attention_rules.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using codegen::AttentionSchedule;
using codegen::cuda_device;

struct LoweredAttention {
  explicit LoweredAttention(const AttentionCase& test)
      : body(ir::parse_graph(test.text)), exprs(body.ranges()) {
    std::vector<std::uint32_t> inputs;
    for (std::uint32_t i = 0; i < body.inputs().size(); ++i) inputs.push_back(i);
    const std::vector<std::uint32_t> outputs = {static_cast<std::uint32_t>(inputs.size())};
    program = codegen::lower_attention(body, inputs, outputs, exprs);
  }
  ir::Graph body;
  codegen::ExprTable exprs;
  codegen::AttentionProgram program;
};

class AttentionDevice : public testing::TestWithParam<const char*> {};

TEST_P(AttentionDevice, SchedulesFitIt) {
  const codegen::DeviceModel& device = cuda_device(GetParam());
  for (const AttentionCase& test : kAttentionCases) {
    LoweredAttention attention(test);
    const auto check = [&](const std::vector<AttentionSchedule>& schedules) {
      ASSERT_FALSE(schedules.empty()) << test.name;
      for (const AttentionSchedule& s : schedules) {
        EXPECT_LE(attention_shared_bytes(attention.program, s),
                  static_cast<unsigned>(device.block_shared_bytes))
            << test.name << ": " << s.to_string();
        EXPECT_LE(s.splits, device.cluster_blocks) << test.name << ": " << s.to_string();
        EXPECT_TRUE(device.has_wgmma || !s.by_warpgroups()) << test.name << ": " << s.to_string();
      }
    };
    check(choose_attention(attention.program, attention.exprs, device));
    check(all_attention_schedules(attention.program, attention.exprs, device));
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, AttentionDevice,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"));

const AttentionCase& heads_of_64() {
  return *std::find_if(
      std::begin(kAttentionCases), std::end(kAttentionCases),
      [](const AttentionCase& test) { return test.name == std::string("heads_of_64"); });
}

TEST(AttentionDevices, EachHasItsOwnSchedules) {
  LoweredAttention attention(heads_of_64());
  const auto texts = [&](const char* architecture) {
    std::vector<std::string> all;
    for (const AttentionSchedule& s :
         choose_attention(attention.program, attention.exprs, cuda_device(architecture)))
      all.push_back(s.to_string());
    return all;
  };
  EXPECT_NE(texts("sm_80"), texts("sm_90"));
  EXPECT_NE(texts("sm_89"), texts("sm_90"));
}

TEST(AttentionDevices, ClustersAreRefusedWhereThereAreNone) {
  LoweredAttention attention(heads_of_64());
  const std::string clusters = "attention rows=1x16 key_groups=4 keys=32 vector=8 split_kv=2";
  const auto chosen = [&](const char* architecture) {
    return choose_attention(attention.program, attention.exprs, cuda_device(architecture),
                            clusters);
  };
  EXPECT_EQ(chosen("sm_90").front().splits, 2);
  EXPECT_THROW(chosen("sm_80"), Error);
}

}  // namespace
}  // namespace sinter::test
