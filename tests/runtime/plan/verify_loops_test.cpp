// SPDX-License-Identifier: Apache-2.0
// Loop programs of plans that are well-formed as bytes and wrong in meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "damaged_plan.h"

namespace sinter::testing {
namespace {

fb::LoopProgramT& loop_of(fb::PlanT& p) { return *p.steps[1]->work.AsLoopStep()->program; }

const DamageCase kLoopDamage[] = {
    {"loop_inner", [](auto& p) { loop_of(p).inner_dims = 3; }, "3 of its 2 dimensions"},
    {"loop_extent", [](auto& p) { loop_of(p).extents[0] = 99999; }, "an extent is 99999"},
    {"loop_buffer", [](auto& p) { loop_of(p).buffers[0] = 99; }, "a buffer is 99"},
    {"loop_access_buffer", [](auto& p) { loop_of(p).accesses[0]->buffer = 9; },
     "an access's buffer"},
    {"loop_strides", [](auto& p) { loop_of(p).accesses[0]->strides.pop_back(); },
     "1 strides for 2 dimensions"},
    {"loop_operand", [](auto& p) { loop_of(p).instrs[6]->args[0] = 50; }, "instructions before it"},
    {"loop_arity", [](auto& p) { loop_of(p).instrs[5]->args.pop_back(); },
     "1 operands instead of 2"},
    {"loop_op", [](auto& p) { loop_of(p).instrs[4]->op = 200; }, "operator 200 does not exist"},
    {"loop_reduce", [](auto& p) { loop_of(p).instrs[6]->op = 9; }, "reduction 9 does not exist"},
    {"loop_kind", [](auto& p) { loop_of(p).instrs[0]->kind = static_cast<fb::InstrKind>(9); },
     "an instruction's kind is 9"},
    {"loop_precision",
     [](auto& p) { loop_of(p).instrs[4]->precision = static_cast<fb::Precision>(3); },
     "an instruction's precision is 3"},
    {"loop_storage_type", [](auto& p) { loop_of(p).instrs[0]->dtype = 9; }, "is a storage type"},
    {"loop_load_type", [](auto& p) { loop_of(p).instrs[0]->dtype = 12; }, "moves f64 values"},
    {"loop_op_type", [](auto& p) { loop_of(p).instrs[4]->dtype = 0; }, "yields f32, not bool"},
    {"loop_access", [](auto& p) { loop_of(p).instrs[0]->access = 77; }, "an access is 77"},
    {"loop_gather", [](auto& p) { loop_of(p).accesses[2]->gathers[0] = fb::Gather(0, 0, 0); },
     "not an integer"},
    {"loop_gather_later", [](auto& p) { loop_of(p).accesses[2]->gathers[0] = fb::Gather(7, 0, 0); },
     "a gathered index is 7"},
    {"loop_guard", [](auto& p) { loop_of(p).accesses[3]->guards[0] = fb::Guard(5, 0); },
     "a guard's index is 5"},
    {"loop_index_node",
     [](auto& p) { loop_of(p).index_nodes[0] = fb::IndexNode(fb::ExprOp::Symbol, 2, 0); },
     "an index node's dimension is 2"},
    {"loop_index_operands",
     [](auto& p) {
       fb::InstrT& index = *loop_of(p).instrs[1];
       index.kind = fb::InstrKind::Index;
       index.args = {0};
     },
     "instruction 1 has operands"},
    {"loop_scatter_op",
     [](auto& p) {
       fb::InstrT& store = *loop_of(p).instrs.back();
       store.kind = fb::InstrKind::Scatter;
       store.op = 9;
     },
     "combines by 9"},
    {"loop_scatter_and_reduce",
     [](auto& p) {
       fb::InstrT& store = *loop_of(p).instrs.back();
       store.kind = fb::InstrKind::Scatter;
       store.op = 255;
     },
     "both scatters and reduces"},
    {"loop_scan_op",
     [](auto& p) {
       fb::InstrT& sum = *loop_of(p).instrs[6];
       sum.kind = fb::InstrKind::Scan;
       sum.op = 4;
     },
     "reduction 4 does not exist"},
    {"loop_scan_and_scatter",
     [](auto& p) {
       loop_of(p).instrs[6]->kind = fb::InstrKind::Scan;
       fb::InstrT& store = *loop_of(p).instrs.back();
       store.kind = fb::InstrKind::Scatter;
       store.op = 255;
     },
     "it scans, and scatters or reduces too"},
    {"loop_scan_without_rows",
     [](auto& p) {
       fb::InstrT& sum = *loop_of(p).instrs[6];
       sum.kind = fb::InstrKind::Scan;
       loop_of(p).inner_dims = 0;
     },
     "it scans, but has no rows"},
    {"loop_row_store", [](auto& p) { loop_of(p).accesses[4]->strides[1] = 3; },
     "stores a value per element at an address per row"},
};

INSTANTIATE_TEST_SUITE_P(Loops, PlanVerify, ::testing::ValuesIn(kLoopDamage), damage_name);

const DamageCase kLoopBoundDamage[] = {
    {"loop_offset", [](auto& p) { loop_of(p).accesses[0]->offset = loop_of(p).extents[1]; },
     "reaches element"},
    {"loop_stride", [](auto& p) { loop_of(p).accesses[0]->strides[1] = loop_of(p).extents[1]; },
     "reaches element"},
    {"loop_gather_extent",
     [](auto& p) {
       loop_of(p).accesses[2]->gathers[0] =
           fb::Gather(1, static_cast<Id>(p.buffers[6]->bytes), loop_of(p).extents[1]);
     },
     "an access reaches element"},
};

INSTANTIATE_TEST_SUITE_P(Loops, PlanVerifyBound, ::testing::ValuesIn(kLoopBoundDamage),
                         damage_name);

}  // namespace
}  // namespace sinter::testing
