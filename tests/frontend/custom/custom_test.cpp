// SPDX-License-Identifier: Apache-2.0
// Operators that users define: definition files, expressions, references, what becomes of nodes.
#include "frontend/custom/expression.h"
#include "frontend/custom/read_operators.h"
#include "frontend/custom/sizes.h"
#include "ir/reference/evaluate.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kScaled = R"toml(
[[operator]]
domain = "com.example"
name = "Scaled"
inputs = ["x", "scale"]
attributes = { limit = 2.0, power = 1 }
[[operator.output]]
name = "y"
value = "select(x < 0, -limit, f32(limit)) * tanh(x * scale) + power"
)toml";

constexpr const char* kRowSum = R"toml(
[[operator]]
domain = "com.example"
name = "RowSum"
inputs = ["x"]
[[operator.output]]
name = "y"
shape = ["x[0]"]
[operator.cuda]
source = 'extern "C" __global__ void row_sum() {}'
[[operator.cuda.workspace]]
name = "parts"
bytes = "4 * x.size"
[[operator.cuda.kernel]]
function = "row_sum"
grid = ["ceildiv(x[0], 4)", 2]
block = [32, 4]
shared_bytes = "4 * 32"
arguments = ["x", "parts", "y", "x[1]", "x[0]", "x[1]"]
)toml";

ImportOptions with(const std::string& text) {
  ImportOptions options;
  options.custom_operators =
      std::make_shared<const std::vector<CustomOperator>>(parse_custom_operators(text, "ops.toml"));
  return options;
}

ModelBuilder model_of(const std::string& op, std::vector<std::vector<ModelDim>> inputs,
                      const std::vector<Attribute>& attributes = {}) {
  ModelBuilder model;
  std::vector<std::string> names;
  for (auto& dims : inputs) {
    names.push_back("in" + std::to_string(names.size()));
    model.input(names.back(), DType::kFloat32, dims);
  }
  model.node(op, names, {"y"}, attributes).output("y");
  model.last_node().set_domain("com.example");
  return model;
}

std::vector<ir::Tensor> evaluate(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs) {
  return ir::evaluate(graph, inputs);
}

TEST(CustomOperators, AnExpressionIsNodesOfTheGraph) {
  const ir::Graph graph =
      model_of("Scaled", {{2, 3}, {3}}, {attr("limit", 0.5F)}).import(with(kScaled)).graph;
  for (const ir::Node& node : graph.nodes()) EXPECT_EQ(node.body, nullptr);
  const auto found =
      evaluate(graph, {floats({2, 3}, {-1, 0, 1, 2, -2, 3}), floats({3}, {1, 2, 3})});
  std::vector<double> expected;
  const double x[] = {-1, 0, 1, 2, -2, 3}, scale[] = {1, 2, 3};
  for (int i = 0; i < 6; ++i)
    expected.push_back((x[i] < 0 ? -0.5 : 0.5) * std::tanh(x[i] * scale[i % 3]) + 1);
  expect_tensor(found[0], {2, 3}, expected);
}

TEST(CustomOperators, KernelsAreOneNodeWithItsLaunches) {
  const ir::Graph graph = model_of("RowSum", {{"n", 8}}).import(with(kRowSum)).graph;
  ASSERT_EQ(graph.nodes().size(), 1u);
  const ir::Node& node = graph.nodes()[0];
  EXPECT_EQ(node.op->name, "CustomKernel");
  EXPECT_EQ(node.attrs.get_string("operator"), "com.example::RowSum");
  EXPECT_EQ(node.attrs.get_string("names"), "x,y");
  EXPECT_EQ(node.attrs.get_string("launches"),
            "row_sum grid=0,1 block=32,4 cluster=1 shared=2 args=in0,work0,out0,dim3,dim4,dim3");
  const auto& dims = node.attrs.get_dims("dims");
  ASSERT_EQ(dims.size(), 5u);
  EXPECT_EQ(dims[0].to_string(), "floordiv(n + 3, 4)");
  EXPECT_EQ(dims[2], ir::Dim(128));
  EXPECT_EQ(node.attrs.get_dims("workspace")[0].to_string(), "32*n");
  EXPECT_EQ(ir::to_string(graph.type(graph.outputs()[0])), "f32[n]");
}

constexpr const char* kStores = R"toml(
[[operator]]
domain = "com.example"
name = "Twice"
inputs = ["x"]
[[operator.output]]
name = "y"
[[operator.output]]
name = "z"
[operator.cuda]
source = """
__device__ void twice(const types::x* x, types::y* y, epilogues::z z, long long n) {}
extern "C" __global__ void again(const types::x* x) {}"""
[[operator.cuda.kernel]]
function = "twice"
grid = [1]
block = [32]
arguments = ["x", "y", "z", "x.size"]
epilogue = ["z"]
[[operator.cuda.kernel]]
function = "again"
grid = [1]
block = [32]
arguments = ["x", "y"]
)toml";

TEST(CustomOperators, KernelsSayWhichOutputsTheyStoreElementByElement) {
  const ir::Graph graph = model_of("Twice", {{"n", 8}}).import(with(kStores)).graph;
  ASSERT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.nodes()[0].attrs.get_ints("epilogues"), ir::Ints{1});
  EXPECT_THAT(graph.nodes()[0].attrs.get_string("launches"),
              HasSubstr("args=in0,out0,out1,dim1\n"));
}

TEST(CustomOperators, EpiloguesAreChecked) {
  const auto refusal = [](const std::string& what, const std::string& to) {
    std::string text = kStores;
    text.replace(text.find(what), what.size(), to);
    return error_of(ErrorCode::kUsage, [&] { parse_custom_operators(text, "ops.toml"); });
  };
  const std::string key = "epilogue = [\"z\"]";
  EXPECT_THAT(refusal(key, "epilogue = [\"x\"]"), HasSubstr("'x' is no output"));
  EXPECT_THAT(refusal(key, "epilogue = [\"z\", \"z\"]"), HasSubstr("'z' is there twice"));
  EXPECT_THAT(refusal(key, "epilogue = \"z\""), HasSubstr("must be a list"));
  EXPECT_THAT(refusal("\"y\", \"z\", \"x.size\"", "\"y\""),
              AllOf(HasSubstr("'z' must be one of 'arguments'"), HasSubstr("epilogues::z")));
  EXPECT_THAT(refusal("\"y\", \"z\", \"x.size\"", "\"z\", \"z\""), HasSubstr("once"));
  EXPECT_THAT(refusal(key, "epilogue = [\"z\", \"y\"]"),
              AllOf(HasSubstr("'again' takes output 'y' too"), HasSubstr("'twice'")));
  EXPECT_THAT(refusal("__device__ void twice", "extern \"C\" __global__ void twice"),
              AllOf(HasSubstr("'twice' must be a __device__ function"), HasSubstr("epilogues::z")));
  EXPECT_THAT(refusal("extern \"C\" __global__ void again", "__global__ void again"),
              HasSubstr("must be extern \"C\""));
  std::string cubin = kStores;
  const std::size_t from = cubin.find("source = "), to = cubin.find("[[operator.cuda.kernel]]");
  TemporaryFolder folder;
  folder.write("a.cubin", std::string("code"));
  cubin.replace(from, to - from, "cubin = { sm_90 = \"a.cubin\" }\n");
  EXPECT_THAT(
      error_of(ErrorCode::kUsage, [&] { read_custom_operators(folder.write("ops.toml", cubin)); }),
      AllOf(HasSubstr("a cubin is compiled already"), HasSubstr("'epilogue'")));
}

constexpr const char* kHost = R"toml(
[[operator]]
domain = "com.example"
name = "RowSum"
inputs = ["x"]
attributes = { limit = 2.5, axis = -1 }
[[operator.output]]
name = "y"
shape = ["x[0]"]
[operator.host]
library = "librows"
)toml";

TEST(CustomOperators, AHostFunctionIsOneNode) {
  const ir::Graph graph =
      model_of("RowSum", {{"n", 8}}, {attr("axis", 3)}).import(with(kHost)).graph;
  ASSERT_EQ(graph.nodes().size(), 1u);
  const ir::Node& node = graph.nodes()[0];
  EXPECT_EQ(node.op->name, "HostOperator");
  EXPECT_EQ(node.attrs.get_string("operator"), "com.example::RowSum");
  EXPECT_EQ(node.attrs.get_string("library"), "librows");
  EXPECT_EQ(node.attrs.get_string("values"), "int axis 3\nfloat limit 2.5\n");
  EXPECT_EQ(ir::to_string(graph.type(graph.outputs()[0])), "f32[n]");
}

TEST(CustomOperators, AHostFunctionHasAReferenceToo) {
  std::string text = kScaled;
  text += "[operator.host]\n";
  const ir::Graph graph = model_of("Scaled", {{2}, {2}}).import(with(text)).graph;
  ASSERT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.nodes()[0].op->name, "HostOperator");
  expect_tensor(evaluate(graph, {floats({2}, {-1, 1}), floats({2}, {1, 1})})[0], {2},
                {-2 * std::tanh(-1.0) + 1, 2 * std::tanh(1.0) + 1});
}

TEST(CustomOperators, TheBodyOfKernelsIsTheHostFunction) {
  const std::string text = std::string(kRowSum) + "[operator.host]\n";
  const ir::Graph graph = model_of("RowSum", {{"n", 8}}).import(with(text)).graph;
  ASSERT_EQ(graph.nodes().size(), 1u);
  ASSERT_EQ(graph.nodes()[0].op->name, "CustomKernel");
  ASSERT_EQ(graph.nodes()[0].body->nodes().size(), 1u);
  EXPECT_EQ(graph.nodes()[0].body->nodes()[0].op->name, "HostOperator");
}

TEST(CustomOperators, TextsIncludeFilesOfTheirFolder) {
  TemporaryFolder folder;
  const auto source_of = [&](const std::string& text) {
    folder.write("row_sum.cu", text + "\nextern \"C\" __global__ void row_sum() {}\n");
    std::string definition = kRowSum;
    const std::string source = "source = 'extern \"C\" __global__ void row_sum() {}'";
    definition.replace(definition.find(source), source.size(), "file = \"row_sum.cu\"");
    return read_custom_operators(folder.write("ops.toml", definition)).at(0).source;
  };
  folder.write("once.cuh", std::string("#pragma once\n#include \"more/two.cuh\"\nint one;"));
  std::filesystem::create_directory(folder.path() / "more");
  folder.write("more/two.cuh", std::string("int two;"));
  EXPECT_EQ(source_of("// no includes"),
            "// no includes\nextern \"C\" __global__ void row_sum() {}\n");
  const std::string all = source_of(
      "# /* of this folder */ include \"once.cuh\" // here\n%:include \"once.cuh\"\n"
      "// #include \"none.cuh\"\n/* a\n#include <none>\n*/ const char* x = \"/*\";");
  EXPECT_EQ(all.find("int one;"), all.rfind("int one;"));
  EXPECT_THAT(all, AllOf(HasSubstr("int two;"), HasSubstr("\"/*\"")));
  EXPECT_THAT(all, Not(HasSubstr("\"once.cuh\" // here")));

  folder.write("loop.cuh", std::string("#include \"loop.cuh\""));
  std::filesystem::create_symlink("/etc/hostname", folder.path() / "link.cuh");
  const auto refusal = [&](const std::string& text) {
    return error_of(ErrorCode::kUsage, [&] { source_of(text); });
  };
  const auto outside = HasSubstr("outside the folder of the definition");
  EXPECT_THAT(refusal("#include \"/etc/hostname\""), outside);
  EXPECT_THAT(refusal("#include \"../hostname\""), outside);
  EXPECT_THAT(refusal("#include \"link.cuh\""), outside);
  EXPECT_THAT(refusal("#inclu\\\nde \"/etc/hostname\""), outside);
  EXPECT_THAT(refusal("const char* s = \"/*\";\n#include \"/etc/hostname\"\n// */"), outside);
  EXPECT_THAT(refusal("#include </etc/hostname>"), HasSubstr("line 1: #include </etc/hostname>"));
  EXPECT_THAT(refusal("#define NAME \"/etc/hostname\"\n#include NAME"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("R\"( /* )\"\n#include \"/etc/hostname\""), HasSubstr("raw string"));
  EXPECT_THAT(refusal("#include \"none.cuh\""), HasSubstr("none.cuh"));
  EXPECT_THAT(refusal("#include \"loop.cuh\""), HasSubstr("without end"));
}

TEST(CustomOperators, KeysOfManyPartsAreRefused) {
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += ".a";
  for (const std::string& hostile : {text + " = 1", "[" + text + "]"})
    EXPECT_THAT(
        error_of(ErrorCode::kUsage, [&] { parse_custom_operators("\n" + hostile, "ops.toml"); }),
        HasSubstr("line 2: it has more than 1000 dots"));
}

TEST(CustomOperators, CubinsTakeThePlaceOfText) {
  TemporaryFolder folder;
  folder.write("a.cubin", std::string("\x7f\0E", 3));
  folder.write("b.cubin", std::string("B"));
  std::string text = kRowSum;
  const std::string source = "source = 'extern \"C\" __global__ void row_sum() {}'";
  text.replace(text.find(source), source.size(),
               "cubin = { sm_90 = \"b.cubin\", sm_80 = \"a.cubin\" }");
  const std::string arguments = "\"x\", \"parts\", \"y\", \"x[1]\", \"x[0]\", \"x[1]\"";
  text.replace(text.find(arguments), arguments.size(),
               "\"x\", \"i32(x[1] + 1)\", \"f32(limit)\", \"null\"");
  text.replace(text.find("inputs ="), 0, "attributes = { limit = 1.5 }\n");
  ImportOptions options;
  options.custom_operators = std::make_shared<const std::vector<CustomOperator>>(
      read_custom_operators(folder.write("ops.toml", text)));
  const ir::Graph graph = model_of("RowSum", {{"n", 8}}).import(options).graph;
  const ir::Node& node = graph.nodes()[0];
  EXPECT_EQ(node.attrs.get_string("source"), "");
  EXPECT_EQ(node.attrs.get_string("cubins"), "sm_80 7f0045\nsm_90 42\n");
  EXPECT_EQ(node.attrs.get_string("launches"),
            "row_sum grid=0,1 block=32,4 cluster=1 shared=2 args=in0,int3,float4,dim5");
  const auto& dims = node.attrs.get_dims("dims");
  EXPECT_EQ(dims[3], ir::Dim(9));
  EXPECT_EQ(dims[4], ir::Dim(0x3fc00000));
  EXPECT_EQ(dims[5], ir::Dim(0));

  std::string wrong = text;
  wrong.replace(wrong.find("f32(limit)"), 10, "f32(limits)");
  options.custom_operators = std::make_shared<const std::vector<CustomOperator>>(
      read_custom_operators(folder.write("wrong.toml", wrong)));
  EXPECT_THAT(model_of("RowSum", {{"n", 8}}).import_error(ErrorCode::kUsage, options),
              HasSubstr("'limits' is no attribute"));
  wrong = text;
  wrong.replace(wrong.find("a.cubin"), 7, "c.cubin");
  EXPECT_THAT(error_of(ErrorCode::kUsage,
                       [&] { read_custom_operators(folder.write("wrong.toml", wrong)); }),
              HasSubstr("c.cubin"));
}

TEST(CustomOperators, WithoutAReferenceNothingIsEvaluated) {
  const ir::Graph graph = model_of("RowSum", {{2, 8}}).import(with(kRowSum)).graph;
  EXPECT_THAT(error_of(ErrorCode::kUnsupported,
                       [&] {
                         evaluate(graph, {ramp({2, 8})});
                       }),
              AllOf(HasSubstr("com.example::RowSum"), HasSubstr("'reference'")));
}

TEST(CustomOperators, TwoNodesOfOneOperatorHaveBodiesOfTheirOwn) {
  ModelBuilder model;
  model.input("a", DType::kFloat32, {4, 8}).input("b", DType::kFloat32, {4, 8});
  for (const char* name : {"a", "b"}) {
    model.node("RowSum", {name}, {std::string(name) + "s"}).output(std::string(name) + "s");
    model.last_node().set_domain("com.example");
  }
  EXPECT_EQ(model.import(with(kRowSum)).graph.nodes().size(), 2u);
}

TEST(CustomOperators, AReferenceIsAModelBesideTheFile) {
  TemporaryFolder folder;
  ModelBuilder reference;
  reference.input("v", DType::kFloat32, {"rows", "columns"});
  reference.ints("axes", {1});
  reference.node("ReduceSum", {"v", "axes"}, {"s"}, {attr("keepdims", 0)}).output("s");
  folder.write("sum.onnx", reference.bytes());
  std::string text = kRowSum;
  text.replace(text.find("inputs ="), 0, "reference = \"sum.onnx\"\n");
  ImportOptions options;
  options.custom_operators = std::make_shared<const std::vector<CustomOperator>>(
      read_custom_operators(folder.write("ops.toml", text)));
  const ir::Graph graph = model_of("RowSum", {{2, 3}}).import(options).graph;
  EXPECT_EQ(graph.nodes()[0].op->name, "CustomKernel");
  expect_tensor(evaluate(graph, {ramp({2, 3})})[0], {2}, {3, 12});

  reference.input("second", DType::kFloat32, {1});
  folder.write("sum.onnx", reference.bytes());
  EXPECT_THAT(model_of("RowSum", {{2, 3}}).import_error(ErrorCode::kUsage, options),
              HasSubstr("it has 2 inputs, and the operator has 1"));
}

struct BadNode {
  const char* text;
  const char* op;
  std::vector<std::vector<ModelDim>> inputs;
  std::vector<Attribute> attributes;
  ErrorCode code;
  const char* message;
};

TEST(CustomOperators, NodesThatDoNotFitAreRefused) {
  const std::string two_rows =
      std::string(kRowSum).replace(std::string(kRowSum).find("\"x[0]\"]"), 7, "\"x[2]\"]");
  const BadNode nodes[] = {
      {kScaled, "Scaled", {{2}}, {}, ErrorCode::kInvalidModel, "scale"},
      {kScaled, "Scaled", {{2}, {2}, {2}}, {}, ErrorCode::kInvalidModel, "takes 2: x, scale"},
      {kScaled, "Scaled", {{2}, {3}}, {}, ErrorCode::kUsage, "value of 'y'"},
      {kScaled, "Scaled", {{2}, {2}}, {attr("limits", 1)}, ErrorCode::kInvalidModel, "limits"},
      {kScaled, "Scaled", {{2}, {2}}, {attr("limit", 1)}, ErrorCode::kInvalidModel, "limit"},
      {two_rows.c_str(), "RowSum", {{2, 2}}, {}, ErrorCode::kUsage, "which has no dimension 2"},
  };
  for (const BadNode& node : nodes)
    EXPECT_THAT(
        model_of(node.op, node.inputs, node.attributes).import_error(node.code, with(node.text)),
        HasSubstr(node.message));
}

TEST(CustomOperators, DefinitionsAreChecked) {
  const auto changed = [](const char* text, const std::string& what, const std::string& to) {
    std::string result = text;
    result.replace(result.find(what), what.size(), to);
    return result;
  };
  const std::pair<std::string, const char*> files[] = {
      {"x = [", "line 1"},
      {"", "defines no [[operator]]"},
      {"[[operators]]\n", "there is no key 'operators'"},
      {changed(kScaled, "\"com.example\"", "\"ai.onnx\""), "must not be ONNX's own"},
      {changed(kScaled, "\"scale\"", "\"x\""), "'x' is there twice"},
      {changed(kScaled, "\"scale\"", "\"a b\""), "is no identifier"},
      {changed(kScaled, "value = ", "values = "), "there is no key 'values'"},
      {changed(kScaled, "power = 1", "power = \"text\""), "must be a number"},
      {std::string(kScaled) + kScaled, "is defined twice"},
      {changed(kScaled, "value = \"select(x < 0, -limit, f32(limit)) * tanh(x * scale) + power\"",
               ""),
       "nothing says what it computes"},
      {changed(kRowSum, "block = [32, 4]", "block = [64, 32]"), "1024 threads at most"},
      {changed(kRowSum, "function = \"row_sum\"", "function = \"rows\""), "has no 'rows'"},
      {changed(kRowSum, "extern \"C\"", ""), "must be extern \"C\""},
      {changed(kRowSum, "grid = [\"ceildiv(x[0], 4)\", 2]", "grid = []"), "one to three sizes"},
      {changed(kHost, "library = ", "file = "), "there is no key 'file'; there are library"},
      {changed(kHost, "[operator.host]\nlibrary = \"librows\"", ""), "[operator.host]"},
      {changed(kRowSum, "source = ", "file = \"a.cu\"\nsource = "),
       "one of 'source', 'file' and 'cubin'"},
      {changed(kRowSum, "source = 'extern \"C\" __global__ void row_sum() {}'", "cubin = {}"),
       "'cubin' has no files"},
      {changed(kRowSum, "source = 'extern \"C\" __global__ void row_sum() {}'",
               "cubin = { hopper = \"a\" }"),
       "'hopper' is no architecture"},
      {changed(kRowSum, "source = 'extern \"C\" __global__ void row_sum() {}'",
               "cubin = { sm_90 = 3 }"),
       "must be a path"},
  };
  for (const auto& [text, message] : files)
    EXPECT_THAT(error_of(ErrorCode::kUsage,
                         [&, &text = text] { parse_custom_operators(text, "ops.toml"); }),
                AllOf(HasSubstr("ops.toml"), HasSubstr(message)))
        << text;
}

TEST(Sizes, SayWhatIsWrong) {
  const ir::Ranges ranges{{"n", {1, 64, nullptr, false}}, {"zero", {0, 64, nullptr, false}}};
  const SizeNamed named = [](std::string_view name, int at) -> std::optional<ir::Dim> {
    if (name == "n" || name == "zero") return ir::Dim::symbol(name);
    return name == "x" && at == 1 ? std::optional<ir::Dim>(7) : std::nullopt;
  };
  EXPECT_EQ(parse_size("2*(n + 3) - x[1]", named, ranges).to_string(), "2*n - 1");
  EXPECT_EQ(parse_size("min(ceildiv(10, 4), -1)", named, ranges), ir::Dim(-1));
  const std::pair<const char*, const char*> wrong[] = {
      {"", "expected a size"},      {"n n", "unexpected text"},
      {"x[64]", "no tensor"},       {"x.rows", "expected 'size'"},
      {"mod(n, 2)", "no function"}, {"floordiv(n, zero)", "may be zero"},
      {"y", "nothing called 'y'"},  {"99999999999999999999", "expected an integer"}};
  for (const auto& [text, message] : wrong)
    EXPECT_THAT(error_of(ErrorCode::kUsage, [&, text = text] { parse_size(text, named, ranges); }),
                HasSubstr(message));
  EXPECT_THAT(
      error_of(ErrorCode::kUsage, [&] { parse_size(std::string(100000, '('), named, ranges); }),
      HasSubstr("too many parentheses"));
}

TEST(Expressions, SayWhatIsWrong) {
  ir::GraphBuilder builder("main");
  const ir::ValueId x = builder.input("x", {DType::kFloat32, {4}});
  const ir::ValueId mask = builder.input("mask", {DType::kBool, {4}});
  const TermNamed named = [&](std::string_view name) -> std::optional<Term> {
    if (name == "x") return x;
    return name == "mask" ? std::optional<Term>(mask) : std::nullopt;
  };
  EXPECT_EQ(builder.type(build_expression(builder, "f16(max(x, 0.5)) * 2", named)).dtype,
            DType::kFloat16);
  EXPECT_EQ(builder.type(build_expression(builder, "select(mask, x, -1)", named)).dtype,
            DType::kFloat32);
  const std::pair<const char*, const char*> wrong[] = {{"2 + 3", "it reads no input"},
                                                       {"exp(2)", "of numbers alone"},
                                                       {"x +", "expected a value"},
                                                       {"tang(x)", "sinter ops --functions"},
                                                       {"exp(x, x)", "takes 1 operands, not 2"},
                                                       {"x + mask", "at column"},
                                                       {"x y", "unexpected text"},
                                                       {"z", "nothing called 'z'"}};
  for (const auto& [text, message] : wrong)
    EXPECT_THAT(
        error_of(ErrorCode::kUsage, [&, text = text] { build_expression(builder, text, named); }),
        HasSubstr(message));
  EXPECT_THAT(error_of(ErrorCode::kUsage,
                       [&] { build_expression(builder, std::string(100000, '-'), named); }),
              HasSubstr("too many parentheses"));
}

}  // namespace
}  // namespace sinter::frontend
