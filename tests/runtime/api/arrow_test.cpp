// SPDX-License-Identifier: Apache-2.0
// Record batches to inputs, on the CPU.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/arrow.h>

#include "api_plans.h"
#include "arrow_arrays.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The ABI on machines of 64 bits.
static_assert(sizeof(ArrowSchema) == 72 && offsetof(ArrowSchema, release) == 56);
static_assert(sizeof(ArrowArray) == 80 && offsetof(ArrowArray, release) == 64);
static_assert(sizeof(ArrowDeviceArray) == 128 && offsetof(ArrowDeviceArray, sync_event) == 96);

std::string refusal(Session& session, const ArrowTree& batch, const BatchOptions& options = {}) {
  return usage_of([&] { bind_record_batch(session, batch.schema, batch.array, options); });
}

BatchOptions columns_of(const std::string& input, std::vector<std::string> columns,
                        const std::string& mask = "") {
  BatchOptions options;
  options.inputs.push_back({input, std::move(columns), mask});
  return options;
}

TEST(Arrow, AColumnIsReadWhereItLies) {
  Session session = copying({{"a"}, {"b", DType::kInt64}});
  const Tree batch = batch_of(numbers<std::int64_t>("b", "l", {9, 7, 8}, {}, 1),
                              floats("a", {1, 2}), floats("unused", {0, 0}));
  const BoundBatch bound = bind_record_batch(session, batch->schema, batch->array);
  EXPECT_EQ(bound.rows, 2);
  EXPECT_THAT(bound.in_place, ElementsAre(0, 1));
  EXPECT_THAT(result<float>(session), ElementsAre(1, 2));
  EXPECT_THAT(result<std::int64_t>(session, 1), ElementsAre(7, 8));
  std::memcpy(batch->children[1]->memory[0].data(), std::vector<float>{5, 6}.data(), 8);
  EXPECT_THAT(result<float>(session), ElementsAre(5, 6)) << "no copy";
  BatchOptions copied;
  copied.copy = true;
  EXPECT_THAT(bind_record_batch(session, batch->schema, batch->array, copied).in_place, IsEmpty());
  std::memset(batch->children[1]->memory[0].data(), 0, 8);
  EXPECT_THAT(result<float>(session), ElementsAre(5, 6));
}

TEST(Arrow, ColumnsBecomeARowOfFeatures) {
  Session session = copying({{"x", DType::kFloat32, 4}});
  const Tree batch =
      batch_of(floats("a", {1, 2, 3}), lists("v", 2, floats("", {10, 11, 20, 21, 30, 31})),
               floats("c", {-1, -2, -3, -4}, {}, 1));
  const auto bound =
      bind_record_batch(session, batch->schema, batch->array, columns_of("x", {"c", "v", "a"}));
  EXPECT_THAT(bound.in_place, IsEmpty());
  EXPECT_THAT(result<float>(session), ElementsAre(-2, 10, 11, 1, -3, 20, 21, 2, -4, 30, 31, 3));
}

TEST(Arrow, ManyRowsInManyBlocks) {
  constexpr std::int64_t kRows = 50'001, kColumns = 7;
  PlanBuilder p;
  const Id n = p.symbol("n");
  const Id x = p.input("x", DType::kFloat32, {n, p.constant(kColumns)});
  const Id y = p.output("y", DType::kFloat32, {n, p.constant(kColumns)});
  p.copy("copy", x, y, p.mul(n, p.constant(4 * kColumns)));
  SessionOptions options;
  options.threads = 2;
  Session session(p.build(), options);
  Tree batch = batch_of();
  std::vector<std::string> names;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    std::vector<float> values(kRows);
    std::vector<bool> valid(kRows);
    for (std::int64_t r = 0; r < kRows; ++r) {
      values[static_cast<std::size_t>(r)] = static_cast<float>(r * kColumns + c);
      valid[static_cast<std::size_t>(r)] = r % 1000 != c;
    }
    names.push_back("c" + std::to_string(c));
    batch->children.push_back(floats(names.back(), values, valid));
  }
  batch->array.length = kRows;
  batch->link();
  BatchOptions how = columns_of("x", names);
  how.nulls = Nulls::kNaN;
  bind_record_batch(session, batch->schema, batch->array, how);
  session.run();
  const auto found = session.output(0).as<float>();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    const float value = found[static_cast<std::size_t>(i)];
    const bool is_null = i / kColumns % 1000 == i % kColumns;
    wrong += is_null ? !std::isnan(value) : value != static_cast<float>(i);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Arrow, ColumnsOfOneFeature) {
  Session session = copying({{"a", DType::kFloat32, 1}, {"v", DType::kFloat32, 3}});
  const Tree batch =
      batch_of(floats("a", {1, 2}), lists("v", 3, floats("", {0, 1, 2, 3, 4, 5, 6}, {}, 1)));
  const auto bound = bind_record_batch(session, batch->schema, batch->array);
  EXPECT_THAT(bound.in_place, ElementsAre(0, 1));
  EXPECT_THAT(result<float>(session), ElementsAre(1, 2));
  EXPECT_THAT(session.output(0).shape, ElementsAre(2, 1));
  EXPECT_THAT(result<float>(session, 1), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Arrow, APartOfABatch) {
  Session session = copying({{"a"}, {"f", DType::kBool}});
  Tree batch = batch_of(floats("a", {0, 1, 2, 3, 4, 5}, {}, 1),
                        bools("f", {false, true, true, false, true, false}, 1));
  batch->array.offset = 1;
  batch->array.length = 4;
  BatchOptions options;
  options.first_row = 1;
  options.rows = 2;
  EXPECT_EQ(bind_record_batch(session, batch->schema, batch->array, options).rows, 2);
  EXPECT_THAT(result<float>(session), ElementsAre(3, 4));
  EXPECT_THAT(result<bool>(session, 1), ElementsAre(false, true));
  options.rows = 4;
  EXPECT_THAT(refusal(session, *batch, options), HasSubstr("has 4 rows; 4 are wanted from row 1"));
  options.rows = -2;
  EXPECT_THAT(refusal(session, *batch, options), HasSubstr("-2 are wanted"));
  options.first_row = std::numeric_limits<std::int64_t>::min();
  options.rows = -1;
  EXPECT_THAT(refusal(session, *batch, options), HasSubstr("are wanted from row -9223"));
}

TEST(Arrow, NullsAreRefusedOrNaNOrGivenAsAMask) {
  Session session = copying({{"x", DType::kFloat32, 2}, {"there", DType::kUInt8, 2}});
  const Tree batch = batch_of(floats("a", {1, 2, 3, 4}, {true, false, true, true}, 1),
                              floats("b", {5, 6, 7}, {true, true, false}));
  session.set_input("there", {3, 2}, std::vector<std::uint8_t>(6, 7));
  BatchOptions options = columns_of("x", {"a", "b"});
  EXPECT_THAT(refusal(session, *batch, options),
              AllOf(HasSubstr("input 'x': column 'a' has 1 nulls"), HasSubstr("'mask'")));
  options.nulls = Nulls::kNaN;
  bind_record_batch(session, batch->schema, batch->array, options);
  const auto values = result<float>(session);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[5]));
  EXPECT_EQ(values[1], 5);
  EXPECT_EQ(values[4], 4);
  options = columns_of("x", {"a", "b"}, "there");
  bind_record_batch(session, batch->schema, batch->array, options);
  EXPECT_THAT(result<float>(session), ElementsAre(0, 5, 3, 6, 4, 0));
  EXPECT_THAT(result<std::uint8_t>(session, 1), ElementsAre(0, 1, 1, 1, 1, 0));
  // Not counted.
  batch->children[0]->array.null_count = -1;
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {"a", "b"})), HasSubstr("has 1 nulls"));
  // Counted as none: the bitmap is of no account.
  batch->children[0]->array.null_count = batch->children[1]->array.null_count = 0;
  bind_record_batch(session, batch->schema, batch->array, columns_of("x", {"a", "b"}));
  EXPECT_THAT(result<float>(session), ElementsAre(2, 5, 3, 6, 4, 7));
}

TEST(Arrow, NullsOfIntegersListsAndRows) {
  Session session = copying({{"k", DType::kInt32}, {"there", DType::kFloat32}});
  const Tree codes = batch_of(numbers<std::int32_t>("k", "i", {1, 2, 3}, {true, false, true}));
  session.set_input("there", {3}, std::vector<float>(3));
  BatchOptions nan;
  nan.nulls = Nulls::kNaN;
  EXPECT_THAT(refusal(session, *codes, nan), HasSubstr("i32 has no NaN"));
  bind_record_batch(session, codes->schema, codes->array, columns_of("k", {"k"}, "there"));
  EXPECT_THAT(result<std::int32_t>(session), ElementsAre(1, 0, 3));
  EXPECT_THAT(result<float>(session, 1), ElementsAre(1, 0, 1));

  // A list that is null, and an element of one.
  Session other = copying({{"v", DType::kFloat32, 2}});
  Tree batch =
      batch_of(lists("v", 2, floats("", {1, 2, 3, 4, 5, 6}, {true, true, true, true, false, true}),
                     {false, true, true}));
  bind_record_batch(other, batch->schema, batch->array, nan);
  std::vector<float> values = result<float>(other);
  for (const std::size_t i : {0, 1, 4}) EXPECT_TRUE(std::isnan(values[i])) << i;
  EXPECT_EQ(values[2], 3);
  EXPECT_EQ(values[5], 6);
  // A row of the batch that is null.
  batch = batch_of(lists("v", 2, floats("", {1, 2, 3, 4})));
  const std::uint8_t bits = 1;
  batch->buffers[0] = batch->add_buffer(&bits, 1);
  batch->array.null_count = 1;
  bind_record_batch(other, batch->schema, batch->array, nan);
  values = result<float>(other);
  EXPECT_EQ(values[1], 2);
  EXPECT_TRUE(std::isnan(values[2]) && std::isnan(values[3]));
}

TEST(Arrow, ValuesAreConvertedOnRequest) {
  Session session = copying({{"x", DType::kFloat32, 6}, {"k", DType::kInt64}});
  Tree batch =
      batch_of(numbers<double>("d", "g", {0.1, -2}), numbers<std::int64_t>("l", "l", {3, -4}),
               numbers<std::uint8_t>("c", "C", {255, 1}),
               numbers<std::uint16_t>("h", "e", {0x3C00, 0xC000}), bools("b", {true, false}),
               floats("f", {7, 8}), numbers<std::uint32_t>("k", "I", {4000000000U, 1}));
  BatchOptions options = columns_of("x", {"d", "l", "c", "h", "b", "f"});
  EXPECT_THAT(refusal(session, *batch, options),
              AllOf(HasSubstr("column 'd' is f64, and the plan takes f32"), HasSubstr("'cast'")));
  options.cast = true;
  bind_record_batch(session, batch->schema, batch->array, options);
  EXPECT_THAT(result<float>(session), ElementsAre(0.1F, 3, 255, 1, 1, 7, -2, -4, 1, -2, 0, 8));
  EXPECT_THAT(result<std::int64_t>(session, 1), ElementsAre(4000000000, 1));
  // What would lose more than a rounding is not converted.
  batch = batch_of(floats("k", {1, 2}));
  session.set_input("x", {2, 6}, std::vector<float>(12));
  options.inputs.clear();
  EXPECT_THAT(refusal(session, *batch, options), HasSubstr("is f32, and the plan takes i64"));
  batch = batch_of(numbers<std::uint64_t>("k", "L", {1, 2}));
  EXPECT_THAT(refusal(session, *batch, options), HasSubstr("is u64, and the plan takes i64"));
}

TEST(Arrow, DictionariesAreTheirCodes) {
  Session session = copying({{"k", DType::kInt32}});
  Tree batch = batch_of(numbers<std::int32_t>("k", "i", {2, 0, 1}));
  Tree words = floats("", {1, 2, 3});
  words->format = "u";
  words->link();
  batch->children[0]->schema.dictionary = &words->schema;
  EXPECT_THAT(refusal(session, *batch), HasSubstr("is a dictionary, and it has none"));
  batch->children[0]->array.dictionary = &words->array;
  bind_record_batch(session, batch->schema, batch->array);
  EXPECT_THAT(result<std::int32_t>(session), ElementsAre(2, 0, 1));
}

TEST(Arrow, OneArrayToOneInput) {
  Session session = copying({{"a"}, {"b"}});
  const Tree array = floats("", {1, 2});
  for (const std::size_t i : {0, 1}) bind_array(session, i, array->schema, array->array);
  EXPECT_THAT(result<float>(session, 1), ElementsAre(1, 2));
  EXPECT_THAT(usage_of([&] { bind_array(session, 2, array->schema, array->array); }),
              HasSubstr("there is no input 2"));
  EXPECT_THAT(usage_of([&] {
                bind_array(session, 0, array->schema, array->array, columns_of("a", {"a"}));
              }),
              HasSubstr("single array"));
}

TEST(Arrow, MisalignedColumnsAreCopied) {
  Session session = copying({{"a"}});
  Tree batch = batch_of(floats("a", {0, 0, 0}));
  ArrowTree& column = *batch->children[0];
  const std::vector<float> values = {1, 2};
  std::memcpy(column.memory[0].data() + 1, values.data(), 8);
  column.buffers[1] = column.memory[0].data() + 1;
  column.array.length = batch->array.length = 2;
  EXPECT_THAT(bind_record_batch(session, batch->schema, batch->array).in_place, IsEmpty());
  EXPECT_THAT(result<float>(session), ElementsAre(1, 2));
}

TEST(Arrow, WhatDoesNotFitIsRefusedAndChangesNothing) {
  Session session = copying({{"a"}, {"x", DType::kFloat32, 2}});
  session.set_input("x", {2, 2}, std::vector<float>{1, 2, 3, 4});
  session.set_input("a", {2}, std::vector<float>{5, 6});
  Tree batch = batch_of(floats("a", {7, 8, 9}), floats("b", {1, 2, 3}));
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {"a", "b", "c"})),
              AllOf(HasSubstr("input 'x'"), HasSubstr("no column 'c'; it has a, b")));
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {"a"})), HasSubstr("column 'a'"));
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {"a", "b", "a"})), HasSubstr("'x'"));
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {})), HasSubstr("no columns"));
  EXPECT_THAT(refusal(session, *batch, columns_of("y", {"a"})), HasSubstr("there is no input 'y'"));
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {"a", "b"}, "x")),
              HasSubstr("its own mask"));
  EXPECT_THAT(refusal(session, *batch, columns_of("x", {"a", "b"}, "a")),
              HasSubstr("input 'a' has 2"));
  BatchOptions twice = columns_of("a", {"a"});
  twice.inputs.push_back({"a", {"b"}, ""});
  EXPECT_THAT(refusal(session, *batch, twice), HasSubstr("twice"));
  batch->children[1]->name = "a";
  batch->children[1]->link();
  EXPECT_THAT(refusal(session, *batch), HasSubstr("two columns 'a'"));
  EXPECT_THAT(result<float>(session), ElementsAre(5, 6));
  EXPECT_THAT(result<float>(session, 1), ElementsAre(1, 2, 3, 4));

  Session fresh = copying({{"a"}, {"x", DType::kFloat32, 2}});
  EXPECT_THAT(refusal(fresh, *batch_of(floats("a", {1}))),
              AllOf(HasSubstr("no column is called 'x'"), HasSubstr("'columns'")));
  BatchOptions all;
  all.all_inputs = true;
  EXPECT_THAT(refusal(session, *batch_of(floats("a", {1, 2})), all),
              HasSubstr("no column is called 'x'"));
  Session stateful(summing().build(), on_one_thread());
  EXPECT_THAT(refusal(stateful, *batch_of(floats("sum", {1})), columns_of("sum", {"sum"})),
              HasSubstr("is a state"));
}

TEST(Arrow, TypesThatNoTensorHasAreRefusedWithTheWayOut) {
  Session session = copying({{"a"}});
  const std::vector<std::pair<std::string, std::string>> types = {
      {"u", "text"},
      {"U", "text"},
      {"vu", "text"},
      {"z", "bytes"},
      {"w:3", "bytes"},
      {"tdD", "cast it to int64"},
      {"tsu:UTC", "a date"},
      {"d:10,2", "cast it to float64"},
      {"n", "nulls"},
      {"+l", "fixed-size list"},
      {"+vl", "fixed-size list"},
      {"+s", "flatten"},
      {"+m", "a map"},
      {"+ud:0,1", "a union"},
      {"+r", "run-end"},
      {"x", "format 'x'"},
      {"", "format ''"},
      {"ff", "format 'ff'"},
      {"+w:", "'+w:'"},
      {"+w:-1", "'+w:-1'"},
      {"+w:3x", "'+w:3x'"},
      {"+w:99999999999999999999", "format"}};
  for (const auto& [format, hint] : types) {
    Tree batch = batch_of(floats("a", {1, 2}));
    batch->children[0]->format = format;
    batch->children[0]->link();
    EXPECT_THAT(refusal(session, *batch), AllOf(HasSubstr("column 'a'"), HasSubstr(hint)))
        << format;
  }
}

TEST(Arrow, HostileArraysAreRefused) {
  Session session = copying({{"a"}, {"v", DType::kFloat32, 2}});
  session.set_input("v", {2, 2}, std::vector<float>(4));
  const auto refused = [&](const std::function<void(ArrowTree&)>& spoil) {
    Tree batch = batch_of(floats("a", {1, 2}), lists("v", 2, floats("", {1, 2, 3, 4})));
    spoil(*batch);
    return refusal(session, *batch);
  };
  const auto first = [&](const std::function<void(ArrowTree&)>& spoil) {
    return refused([&](ArrowTree& batch) { spoil(*batch.children[0]); });
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refused([](auto& b) { b.array.release = nullptr; }), HasSubstr("was released"));
  EXPECT_THAT(refused([](auto& b) { b.schema.release = nullptr; }), HasSubstr("was released"));
  EXPECT_THAT(first([](auto& c) { c.array.release = nullptr; }), HasSubstr("'a' was released"));
  EXPECT_THAT(first([](auto& c) { c.schema.release = nullptr; }), HasSubstr("'a' was released"));
  EXPECT_THAT(refused([](auto& b) { b.schema.format = nullptr; }), HasSubstr("no format"));
  EXPECT_THAT(refused([](auto& b) { b.schema.format = "f"; }), HasSubstr("bind_array"));
  EXPECT_THAT(refused([](auto& b) { b.schema.n_children = -1; }), HasSubstr("-1 children"));
  EXPECT_THAT(refused([](auto& b) { b.schema.children = nullptr; }), HasSubstr("no list of them"));
  EXPECT_THAT(refused([](auto& b) { b.array.children = nullptr; }), HasSubstr("children"));
  EXPECT_THAT(refused([](auto& b) { b.array.n_children = 1; }), HasSubstr("1 children"));
  EXPECT_THAT(refused([](auto& b) { b.child_arrays[1] = nullptr; }), HasSubstr("child 1"));
  EXPECT_THAT(refused([](auto& b) { b.child_schemas[0] = nullptr; }), HasSubstr("child 0"));
  for (const std::int64_t length : {std::int64_t{-1}, kHuge})
    EXPECT_THAT(refused([&](auto& b) { b.array.length = length; }), HasSubstr("length"));
  EXPECT_THAT(refused([](auto& b) { b.array.offset = kHuge; }), HasSubstr("offset"));
  EXPECT_THAT(refused([](auto& b) { b.array.offset = 1; }),
              HasSubstr("child 0 has 2 elements, and 3 are needed"));
  EXPECT_THAT(refused([](auto& b) { b.array.length = 1000; }), HasSubstr("1000 are needed"));
  EXPECT_THAT(refused([](auto& b) { b.array.null_count = 2; }), HasSubstr("no bitmap"));
  for (const std::int64_t count : {std::int64_t{-2}, std::int64_t{3}})
    EXPECT_THAT(first([&](auto& c) { c.array.null_count = count; }), HasSubstr("nulls in 2"));
  EXPECT_THAT(first([](auto& c) { c.array.null_count = 1; }), HasSubstr("no bitmap"));
  EXPECT_THAT(first([](auto& c) { c.array.n_buffers = 1; }), HasSubstr("1 buffers"));
  EXPECT_THAT(first([](auto& c) { c.array.buffers = nullptr; }), HasSubstr("without a list"));
  EXPECT_THAT(first([](auto& c) { c.buffers[1] = nullptr; }), HasSubstr("no data"));
  EXPECT_THAT(first([](auto& c) { c.array.offset = -4; }), HasSubstr("offset -4"));
  EXPECT_THAT(first([](auto& c) { c.array.length = 1; }), HasSubstr("2 are needed"));
  // Lists whose items are too few, none, or the list itself.
  const auto list = [&](const std::function<void(ArrowTree&)>& spoil) {
    return refused([&](ArrowTree& batch) { spoil(*batch.children[1]); });
  };
  EXPECT_THAT(list([](auto& c) { c.children[0]->array.length = 3; }), HasSubstr("4 are needed"));
  EXPECT_THAT(list([](auto& c) { c.schema.n_children = 0; }), HasSubstr("0 children"));
  EXPECT_THAT(list([](auto& c) {
                c.format = "+w:72057594037927936";
                c.schema.format = c.format.c_str();
              }),
              HasSubstr("times"));
  EXPECT_THAT(list([](auto& c) {
                c.format = "+w:1";
                c.schema.format = c.format.c_str();
                c.child_schemas[0] = &c.schema;
                c.child_arrays[0] = &c.array;
              }),
              HasSubstr("more than 8 levels"));
  const Tree good = batch_of(floats("a", {1, 2}), lists("v", 2, floats("", {1, 2, 3, 4})));
  bind_record_batch(session, good->schema, good->array);
  EXPECT_THAT(result<float>(session, 1), ElementsAre(1, 2, 3, 4));
}

TEST(Arrow, DeviceArraysOnTheHostAndElsewhere) {
  Session session = copying({{"a"}});
  const Tree batch = batch_of(floats("a", {1, 2}));
  ArrowDeviceArray device{batch->array, -1, ARROW_DEVICE_CPU, nullptr, {}};
  bind_record_batch(session, batch->schema, device);
  EXPECT_THAT(result<float>(session), ElementsAre(1, 2));
  const auto refused = [&] {
    return usage_of([&] { bind_record_batch(session, batch->schema, device); });
  };
  device.device_type = 7;
  EXPECT_THAT(refused(), HasSubstr("device of type 7"));
  device.device_type = ARROW_DEVICE_CUDA;
  EXPECT_THAT(refused(), HasSubstr("device -1"));
  device.device_id = 0;
  EXPECT_THAT(refused(),
              AllOf(HasSubstr("column 'a'"), HasSubstr("for the CPU takes host memory")));
}

}  // namespace
}  // namespace sinter::testing
