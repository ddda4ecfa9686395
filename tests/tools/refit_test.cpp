// SPDX-License-Identifier: Apache-2.0
// Plans with other weights: equal to what compiling gives, or refused by name.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include <gmock/gmock.h>
#include <sinter/compiler.h>

#include "frontend/decoders/files/safetensors.h"
#include "runtime/files/input_file.h"
#include "runtime/plan_access.h"
#include "tests/support/changed_json.h"
#include "tests/support/try_recipes.h"
#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Refit : public CliTest {
 public:
  using CliTest::value;
  static void add_node(onnx::GraphProto& graph, const std::string& op,
                       const std::vector<std::string>& inputs, const std::string& output) {
    auto& node = *graph.add_node();
    node.set_op_type(op);
    node.set_name(op + "_" + output);
    for (const auto& input : inputs) node.add_input(input);
    node.add_output(output);
  }

 protected:
  static void add_tensor(onnx::GraphProto& graph, const std::string& name,
                         const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    auto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const auto dim : shape) tensor.add_dims(dim);
    tensor.set_raw_data(
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }

  static std::vector<float> numbers(std::size_t count, float seed) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = std::sin(seed + static_cast<float>(i) * 1.37f);
    return values;
  }

  /// y = (x @ w + b) * scale, and the same of a second projection of x; x f32 [batch, 64].
  static onnx::ModelProto model(float seed, float scale = 0.5f, const std::string& last = "Relu") {
    onnx::ModelProto model;
    model.set_ir_version(8);
    auto* opset = model.add_opset_import();
    opset->set_domain("");
    opset->set_version(17);
    auto& graph = *model.mutable_graph();
    graph.set_name("refit");
    value(graph.add_input(), "x", {"batch", "64"});
    for (const std::string part : {"a", "b"}) {
      add_tensor(graph, "w_" + part, {64, 32}, numbers(64 * 32, seed + (part == "a" ? 0.f : 9.f)));
      add_tensor(graph, "bias_" + part, {32}, numbers(32, seed + (part == "a" ? 5.f : 7.f)));
      add_node(graph, "MatMul", {"x", "w_" + part}, "p_" + part);
      add_node(graph, "Add", {"p_" + part, "bias_" + part}, "s_" + part);
      add_node(graph, "Mul", {"s_" + part, "scale"}, "m_" + part);
      add_node(graph, last, {"m_" + part}, "y_" + part);
      value(graph.add_output(), "y_" + part, {"batch", "32"});
    }
    add_tensor(graph, "scale", {}, {scale});
    return model;
  }

  std::string save(const onnx::ModelProto& model, const std::string& name) {
    std::ofstream file(path(name), std::ios::binary);
    model.SerializeToOstream(&file);
    return path(name);
  }

  std::string safetensors(const std::string& header, const std::string& data) const {
    const std::uint64_t size = header.size();
    std::string bytes(sizeof size, '\0');
    std::memcpy(bytes.data(), &size, sizeof size);
    return bytes + header + data;
  }

  /// The tensors of a model but for `without`.
  std::string save_safetensors(const onnx::ModelProto& model, const std::string& name,
                               const std::string& without = "") {
    json header = json::object();
    std::string data;
    for (const auto& tensor : model.graph().initializer()) {
      if (tensor.name() == without) continue;
      const std::size_t begin = data.size();
      data += tensor.raw_data();
      header[tensor.name()] = {
          {"dtype", "F32"},
          {"shape", std::vector<std::int64_t>(tensor.dims().begin(), tensor.dims().end())},
          {"data_offsets", {begin, data.size()}}};
    }
    std::ofstream(path(name), std::ios::binary) << safetensors(header.dump(), data);
    return path(name);
  }

  std::string bytes(const std::string& name) const { return files::read_file(path(name)); }

  CliResult compile(const std::string& model, const std::string& plan,
                    std::vector<std::string> options) {
    std::vector<std::string> words{"compile", model, "-o", path(plan)};
    words.insert(words.end(), options.begin(), options.end());
    CliResult result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }

  CliResult refit(const std::string& weights, std::vector<std::string> options = {}) {
    std::vector<std::string> words{"refit", path("old.plan"),  "--weights", weights,
                                   "-o",    path("refit.plan")};
    words.insert(words.end(), options.begin(), options.end());
    return sinter(words);
  }
};

TEST_F(Refit, GivesTheBytesOfCompilingTheNewModel) {
  const std::vector<std::vector<std::string>> ways = {
      {"--target=cpu"},
      {"--target=cpu", "--weights=int8"},
      {"--target=cpu", "--weights=int4"},
      {"--target=cpu", "--fuse=off"},
      {"--target=cpu", "--precision=bf16"},
#ifdef SINTER_WITH_CUDA
      {"--target=cuda:sm_90"},
      {"--target=cuda:sm_90", "--precision=fp16", "--dim", "batch=1"},
      {"--target=cuda:sm_90", "--precision=fp16", "--weights=int8"},
      {"--target=cuda:sm_90", "--precision=fp16", "--weights=int4", "--dim", "batch=1"},
#endif
  };
  const std::string before = save(model(1), "before.onnx");
  std::filesystem::create_directories(path("new"));
  const std::string after = save(model(2), "new/before.onnx");
  for (const auto& way : ways) {
    SCOPED_TRACE(testing::PrintToString(way));
    compile(before, "old.plan", way);
    compile(after, "new.plan", way);
    ASSERT_NE(bytes("old.plan"), bytes("new.plan"));
    const CliResult result = refit(after);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(bytes("refit.plan"), bytes("new.plan"));
  }
}

TEST_F(Refit, TakesSafetensors) {
  compile(save(model(1), "before.onnx"), "old.plan", {"--target=cpu"});
  compile(save(model(2), "after.onnx"), "new.plan", {"--target=cpu"});
  const CliResult result = refit(save_safetensors(model(2), "new.safetensors"));
  ASSERT_EQ(result.code, 0) << result.err;
  const Plan changed = Plan::load(path("refit.plan")), expected = Plan::load(path("new.plan"));
  EXPECT_EQ(changed.graph_text(), expected.graph_text());
  const std::vector<float> x = numbers(64, 3);
  std::vector<std::vector<float>> results;
  for (const Plan* plan : {&changed, &expected}) {
    Session session(*plan);
    session.set_input("x", {1, 64}, std::span<const float>(x));
    session.run();
    const auto y = session.output("y_a").as<float>();
    results.emplace_back(y.begin(), y.end());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(Refit, RefusesByNameWhatWasFoldedAway) {
  compile(save(model(1), "before.onnx"), "old.plan", {"--target=cpu"});
  EXPECT_EQ(refit(save(model(2, 0.5f), "same.onnx")).code, 0);
  const CliResult result = refit(save(model(2, 0.25f), "other.onnx"));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("'scale'"));
  EXPECT_THAT(result.err, HasSubstr("compile the new model"));
  const CliResult listed = sinter({"inspect", path("old.plan"), "--refit", "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  const json report = json::parse(listed.out);
  std::map<std::string, bool> refittable;
  for (const auto& tensor : report.at("tensors"))
    refittable[tensor.at("name")] = tensor.at("refittable");
  EXPECT_TRUE(refittable.at("w_a"));
  EXPECT_TRUE(refittable.at("bias_b"));
  EXPECT_FALSE(refittable.at("scale"));
}

TEST_F(Refit, RefusesOthersThanTheModelsTensors) {
  compile(save(model(1), "before.onnx"), "old.plan", {"--target=cpu"});
  const auto error_of = [&](const std::string& weights, std::vector<std::string> options = {}) {
    const CliResult result = refit(weights, options);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_FALSE(std::filesystem::exists(path("refit.plan")));
    return result.err;
  };
  EXPECT_THAT(error_of(save(model(1, 0.5f, "Tanh"), "tanh.onnx")), HasSubstr("another model"));
  EXPECT_THAT(error_of(save_safetensors(model(2), "missing.safetensors", "w_b")),
              HasSubstr("no new value for 'w_b'"));
  onnx::ModelProto other = model(2);
  other.mutable_graph()->mutable_initializer(0)->set_name("v");
  EXPECT_THAT(error_of(save_safetensors(other, "unknown.safetensors")),
              HasSubstr("has no tensor 'v'"));
  other = model(2);
  auto& first = *other.mutable_graph()->mutable_initializer(0);
  first.set_dims(0, 32);
  first.set_dims(1, 64);
  EXPECT_THAT(error_of(save_safetensors(other, "shape.safetensors")),
              HasSubstr("tensor 'w_a' is f32[32, 64], but the plan's model has f32[64, 32]"));
  EXPECT_THAT(error_of(path("nothing.safetensors")), HasSubstr("nothing.safetensors"));
}

TEST_F(Refit, KeepsWeightsOfWhichNothingIsGiven) {
  compile(save(model(1), "before.onnx"), "old.plan", {"--target=cpu", "--fuse=off"});
  onnx::ModelProto mixed = model(1);
  onnx::ModelProto only;
  auto& weight = *mixed.mutable_graph()->mutable_initializer(0);
  weight = model(2).graph().initializer(0);
  *only.mutable_graph()->add_initializer() = weight;
  compile(save(mixed, "mixed.onnx"), "new.plan", {"--target=cpu", "--fuse=off"});
  const std::string weights = save_safetensors(only, "one.safetensors");
  EXPECT_EQ(refit(weights).code, 2);
  const CliResult result = refit(weights, {"--partial"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Plan::load(path("refit.plan")).graph_text(), Plan::load(path("new.plan")).graph_text());
}

/// y = x @ dequantized integers [64, 32], by column, or by groups of 16 rows (opset 21).
onnx::ModelProto quantized_model(int seed, bool by_groups) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(21);
  auto& graph = *model.mutable_graph();
  graph.set_name("quantized");
  Refit::value(graph.add_input(), "x", {"batch", "64"});
  Refit::value(graph.add_output(), "y", {"batch", "32"});
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, auto type,
                       auto value) {
    auto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    std::int64_t count = 1;
    for (const auto dim : shape) {
      tensor.add_dims(dim);
      count *= dim;
    }
    std::string raw;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto each = value();
      raw.append(reinterpret_cast<const char*>(&each), sizeof each);
    }
    tensor.set_raw_data(raw);
  };
  const auto integer = [&] { return static_cast<std::int8_t>(random()); };
  const std::vector<std::int64_t> scales =
      by_groups ? std::vector<std::int64_t>{4, 32} : std::vector<std::int64_t>{32};
  add("w", {64, 32}, onnx::TensorProto::INT8, integer);
  add("scale", scales, onnx::TensorProto::FLOAT,
      [&] { return static_cast<float>(random() % 1000 + 1) / 1024; });
  add("zero", scales, onnx::TensorProto::INT8, integer);
  Refit::add_node(graph, "DequantizeLinear", {"w", "scale", "zero"}, "d");
  auto& node = *graph.mutable_node(0);
  const auto attribute = [&](const char* name, std::int64_t number) {
    auto& made = *node.add_attribute();
    made.set_name(name);
    made.set_type(onnx::AttributeProto::INT);
    made.set_i(number);
  };
  attribute("axis", by_groups ? 0 : 1);
  if (by_groups) attribute("block_size", 16);
  Refit::add_node(graph, "MatMul", {"x", "d"}, "y");
  return model;
}

TEST_F(Refit, TakesIntegersThatTheModelHas) {
  std::vector<std::vector<std::string>> targets = {{"--target=cpu"}};
#ifdef SINTER_WITH_CUDA
  targets.push_back({"--target=cuda:sm_90", "--precision=fp16"});
#endif
  for (const bool by_groups : {false, true})
    for (const std::vector<std::string>& options : targets) {
      SCOPED_TRACE(by_groups);
      const std::string changed = save(quantized_model(2, by_groups), "new.onnx");
      compile(save(quantized_model(1, by_groups), "old.onnx"), "old.plan", options);
      compile(changed, "new.plan", options);
      const CliResult result = refit(changed, {"--quiet"});
      ASSERT_EQ(result.code, 0) << result.err;
      const auto a = PlanAccess::data(Plan::load(path("new.plan"))),
                 b = PlanAccess::data(Plan::load(path("refit.plan")));
      EXPECT_TRUE(std::ranges::equal(a->weights, b->weights));
      EXPECT_EQ(a->meta.graph_text, b->meta.graph_text);
    }
}

TEST_F(Refit, RecipesThatFitNothingGiveOneError) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--target=cpu"},
        {"--target=cpu", "--weights=int4:group=32:asymmetric"},
        {"--target=cpu", "--weights=int8", "--precision=bf16"}}) {
    compile(save(model(1), "old.onnx"), "old.plan", options);
    const auto plan = PlanAccess::data(Plan::load(path("old.plan")));
    const json recipes = json::parse(plan->meta.refit);
    ASSERT_TRUE(try_recipes(recipes.dump()));
    std::mt19937 random(1);
    int refused = 0, made = 0;
    for (int round = 0; round < 2000; ++round) {
      json changed = recipes;
      for (auto times = 1 + random() % 3; times > 0; --times) change_json(changed, random);
      const std::string text = changed.dump();
      SCOPED_TRACE(text);
      try {
        made += try_recipes(text) ? 1 : 0;
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(refused, 200);
    EXPECT_GT(made, 20);
  }
}

TEST_F(Refit, SaysWhichRecipeDoesNotFit) {
  compile(save(model(1), "old.onnx"), "old.plan", {"--target=cpu", "--weights=int4:group=32"});
  const auto plan = PlanAccess::data(Plan::load(path("old.plan")));
  const auto refusal = [&](const auto& change) -> std::string {
    json recipes = json::parse(plan->meta.refit);
    for (json& call : recipes["calls"])
      if (call[0] == "quantized") change(call);
    try {
      try_recipes(recipes.dump());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
      return error.what();
    }
    return "nothing";
  };
  const std::pair<const char*, void (*)(json & call)> changes[] = {
      {"bits",
       [](json& call) {
         call[1]["bits"] = {"int", 5};
       }},
      {"group",
       [](json& call) {
         call[1]["group"] = {"int", -1};
       }},
      {"an attribute less", [](json& call) { call[1].erase("symmetric"); }},
      {"an input more", [](json& call) { call[2].push_back(json(call[2][0])); }},
      {"a derivation", [](json& call) { call[0] = "joined_rows"; }},
      {"an operator", [](json& call) { call[0] = "Transpose"; }}};
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    EXPECT_THAT(refusal(change), HasSubstr("cannot be applied to what they say"));
  }
}

TEST_F(Refit, TakesTensorsInMemory) {
  compile(save(model(1), "before.onnx"), "old.plan", {"--target=cpu"});
  compile(save(model(2), "after.onnx"), "new.plan", {"--target=cpu"});
  const onnx::ModelProto next = model(2);
  std::vector<NamedTensor> tensors;
  for (const auto& each : next.graph().initializer())
    tensors.push_back({each.name(), TensorView{DType::kFloat32,
                                               {each.dims().begin(), each.dims().end()},
                                               each.raw_data().data()}});
  const Plan changed = with_weights(Plan::load(path("old.plan")), tensors);
  EXPECT_EQ(changed.graph_text(), Plan::load(path("new.plan")).graph_text());
  tensors.pop_back();
  tensors.pop_back();
  EXPECT_THROW(with_weights(Plan::load(path("old.plan")), tensors), Error);
}

class Safetensors : public Refit {
 protected:
  std::string refusal(const std::string& bytes) {
    try {
      frontend::parse_safetensors(std::as_bytes(std::span(bytes)), nullptr, "a.safetensors");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "accepted";
  }
  std::string refusal(const std::string& header, const std::string& data) {
    return refusal(safetensors(header, data));
  }
};

TEST_F(Safetensors, ReadsTensors) {
  const std::string bytes = safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[4,12]}})",
      std::string("\x80\x3f\x00\xc0", 4) + std::string("\x07\0\0\0\0\0\0\0", 8));
  const auto tensors =
      frontend::parse_safetensors(std::as_bytes(std::span(bytes)), nullptr, "a.safetensors");
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors.at("a").shape(), (ir::Ints{1, 2}));
  EXPECT_THAT(tensors.at("a").to_doubles(), testing::ElementsAre(1, -2));
  EXPECT_EQ(tensors.at("b").at_int(0), 7);
}

TEST_F(Safetensors, ManyTensorsTakeTimeAsTheirBytesDo) {
  std::string header = "{";
  for (int i = 0; i < 60000; ++i)
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(refusal(header + "}", ""), "accepted");  // many seconds where work is quadratic
}

TEST_F(Safetensors, RefusesWhatIsDamaged) {
  EXPECT_THAT(refusal(""), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("header would have"));
  EXPECT_THAT(refusal(std::string("\x09\0\0\0\0\0\0\0{}", 10)), HasSubstr("cut short"));
  EXPECT_THAT(refusal("[]", ""), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{", ""), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal(std::string(10000, '['), ""), HasSubstr("nested too deep"));
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + at +
           "}}";
  };
  EXPECT_EQ(refusal(one("F32", "[2]", "[0,8]"), std::string(8, '\0')), "accepted");
  EXPECT_EQ(refusal(one("F8_E4M3", "[2]", "[0,2]"), "ab"), "accepted");
  EXPECT_THAT(refusal(one("F8_E8M0", "[2]", "[0,2]"), "ab"), HasSubstr("type 'F8_E8M0'"));
  EXPECT_THAT(refusal(one("F32", "[3]", "[0,8]"), std::string(8, '\0')),
              HasSubstr("needs 12 bytes"));
  EXPECT_THAT(refusal(one("F32", "[-2]", "[0,8]"), std::string(8, '\0')), HasSubstr("no number"));
  EXPECT_THAT(refusal(one("F32", "[4611686018427387904,4]", "[0,0]"), ""), HasSubstr("overflows"));
  EXPECT_THAT(refusal(one("F32", "[2]", "[0,16]"), std::string(8, '\0')),
              HasSubstr("bytes 0 to 16"));
  EXPECT_THAT(refusal(one("F32", "[2]", "[8,0]"), std::string(8, '\0')), HasSubstr("bytes 8 to 0"));
  EXPECT_THAT(refusal(one("F32", "[1]", "[4,8]"), std::string(8, '\0')),
              HasSubstr("begins at byte 4"));
  EXPECT_THAT(refusal(one("F32", "[1]", "[0,4]"), std::string(8, '\0')),
              HasSubstr("behind its last"));
  EXPECT_THAT(refusal(one("F32", "[2]", "[0]"), ""), HasSubstr("not two numbers"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32"}})", ""), HasSubstr("lacks its"));
  EXPECT_THAT(refusal(R"({"a":1})", ""), HasSubstr("lacks its"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                      R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                      ""),
              HasSubstr("'a' is there twice"));
}

}  // namespace
}  // namespace sinter::tests
