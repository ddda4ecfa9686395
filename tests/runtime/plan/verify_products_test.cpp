// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of plans that are well-formed as bytes and wrong in meaning.
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "damaged_plan.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

fb::MatmulStepT& matmul_of(fb::PlanT& p) { return *p.steps[0]->work.AsMatmulStep(); }
fb::ConvStepT& conv_of(fb::PlanT& p) { return *p.steps[2]->work.AsConvStep(); }

const DamageCase kProductDamage[] = {
    {"matmul_buffer", [](auto& p) { matmul_of(p).a->buffer = 99; }, "operand a is 99"},
    {"matmul_stride", [](auto& p) { matmul_of(p).a->col_stride = matmul_of(p).a->row_stride; },
     "neither rows nor columns of operand a"},
    {"matmul_batch", [](auto& p) { matmul_of(p).batch = {0}; }, "0 batch strides for 1"},
    {"matmul_bias", [](auto& p) { matmul_of(p).bias = -5; }, "its bias is buffer -5"},
    {"matmul_activation", [](auto& p) { matmul_of(p).activation = fb::Activation::Sigmoid; },
     "its activation is 4"},
    {"matmul_type", [](auto& p) { matmul_of(p).a->dtype = 9; }, "in a buffer of type f32"},
    {"conv_rank", [](auto& p) { conv_of(p).output_shape.pop_back(); }, "must have the same number"},
    {"conv_strides", [](auto& p) { conv_of(p).strides.clear(); }, "0 strides"},
    {"conv_stride", [](auto& p) { conv_of(p).strides[0] = 0; }, "not a possible stride"},
    {"conv_group", [](auto& p) { conv_of(p).group = 0; }, "it has 0 groups"},
    {"conv_bias", [](auto& p) { conv_of(p).bias = -2; }, "its bias is buffer -2"},
    {"conv_residual", [](auto& p) { conv_of(p).residual = -2; }, "its residual is buffer -2"},
    {"conv_residual_type", [](auto& p) { conv_of(p).residual = 1; },
     "the residual is not of the input's type"},
    {"conv_residual_undeclared", [](auto& p) { conv_of(p).residual = 5; },
     "reads buffer 5 undeclared"},
    {"conv_activation", [](auto& p) { conv_of(p).activation = static_cast<fb::Activation>(11); },
     "its activation is 11"},
    {"conv_math", [](auto& p) { conv_of(p).math = static_cast<fb::MathMode>(3); },
     "its math mode is 3"},
    {"conv_type", [](auto& p) { conv_of(p).input = 1; }, "all must be one float type"},
};

INSTANTIATE_TEST_SUITE_P(Products, PlanVerify, ::testing::ValuesIn(kProductDamage), damage_name);

const DamageCase kProductBoundDamage[] = {
    {"matmul_k", [](auto& p) { matmul_of(p).k = matmul_of(p).m; }, "operand a reaches element"},
    {"matmul_d", [](auto& p) { matmul_of(p).d->offset = matmul_of(p).n; }, "result d reaches"},
    {"conv_output", [](auto& p) { conv_of(p).pads_end = {1}; }, "does not follow from"},
    {"conv_channels", [](auto& p) { conv_of(p).group = 2; }, "do not belong together"},
    {"conv_layout", [](auto& p) { conv_of(p).channels_last = true; }, "do not belong together"},
    {"conv_residual",
     [](auto& p) {
       conv_of(p).residual = 6;
       p.steps[2]->reads.push_back(6);
     },
     "the residual reaches element 17"},
};

INSTANTIATE_TEST_SUITE_P(Products, PlanVerifyBound, ::testing::ValuesIn(kProductBoundDamage),
                         damage_name);

TEST(PlanVerifyBound, ChannelsMayBeLast) {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  fb::ConvStepT& conv = conv_of(parts.meta);
  conv.channels_last = true;
  for (auto* shape : {&conv.input_shape, &conv.weight_shape, &conv.output_shape})
    std::swap((*shape)[1], (*shape)[2]);
  ASSERT_EQ(refusal_of(plan::serialize_plan(parts)), "accepted");
  EXPECT_EQ(bound_refusal_of(parts.meta, 9), "accepted");
  conv.pads_end = {1};
  EXPECT_THAT(bound_refusal_of(parts.meta, 9), HasSubstr("does not follow from"));
}

}  // namespace
}  // namespace sinter::testing
