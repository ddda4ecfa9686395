// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

struct PointwiseCase {
  std::string name;
  OneOp op;
  std::vector<double> expected;
};

class Pointwise : public testing::TestWithParam<PointwiseCase> {};

TEST_P(Pointwise, Computes) {
  const PointwiseCase& c = GetParam();
  expect_tensor(c.op.run(), c.op.inputs[0].shape(), c.expected);
}

Tensor f(const std::vector<double>& v) { return floats({static_cast<std::int64_t>(v.size())}, v); }
Tensor i(const std::vector<std::int64_t>& v) {
  return int64s({static_cast<std::int64_t>(v.size())}, v);
}
Tensor b(const std::vector<std::int64_t>& v) {
  return bools({static_cast<std::int64_t>(v.size())}, v);
}
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

// Expected values are NumPy's for the formulas of the ONNX specification.
// clang-format off
INSTANTIATE_TEST_SUITE_P(Ops, Pointwise, testing::ValuesIn(std::vector<PointwiseCase>{
    {"Abs", {"Abs", {f({-2, 3})}}, {2, 3}},
    {"Neg", {"Neg", {f({-2, 3})}}, {2, -3}},
    {"Sign", {"Sign", {f({-2, 0, 3})}}, {-1, 0, 1}},
    {"Floor", {"Floor", {f({-1.5, 1.5})}}, {-2, 1}},
    {"Ceil", {"Ceil", {f({-1.5, 1.5})}}, {-1, 2}},
    {"RoundToEven", {"Round", {f({0.5, 1.5, -2.5})}}, {0, 2, -2}},
    {"Sqrt", {"Sqrt", {f({4, 9})}}, {2, 3}},
    {"Reciprocal", {"Reciprocal", {f({4, -2})}}, {0.25, -0.5}},
    {"Exp", {"Exp", {f({0, 1})}}, {1, 2.718281828}},
    {"Log", {"Log", {f({1, 2})}}, {0, 0.693147181}},
    {"Erf", {"Erf", {f({0, 0.5})}}, {0, 0.520499878}},
    {"Sin", {"Sin", {f({0, 1})}}, {0, 0.841470985}},
    {"Cos", {"Cos", {f({0, 1})}}, {1, 0.540302306}},
    {"Tan", {"Tan", {f({0, 1})}}, {0, 1.557407725}},
    {"Acos", {"Acos", {f({-1, 0.5, 1})}}, {3.141592654, 1.047197551, 0}},
    {"Asin", {"Asin", {f({-1, 0.5, 1})}}, {-1.570796327, 0.523598776, 1.570796327}},
    {"Atan", {"Atan", {f({-1, 1e30})}}, {-0.785398163, 1.570796327}},
    {"Acosh", {"Acosh", {f({1, 3})}}, {0, 1.762747174}},
    {"Asinh", {"Asinh", {f({-2, 0})}}, {-1.443635475, 0}},
    {"Atanh", {"Atanh", {f({-0.5, 1})}}, {-0.549306144, kInf}},
    {"Cosh", {"Cosh", {f({-1})}}, {1.543080635}},
    {"Sinh", {"Sinh", {f({-1, 1e-3})}}, {-1.175201194, 1.000000167e-3}},
    {"BitwiseNot", {"BitwiseNot", {i({0, -8})}, {}, 18}, {-1, 7}},
    {"BitwiseAnd", {"BitwiseAnd", {i({12, -1}), i({10, 5})}, {}, 18}, {8, 5}},
    {"BitwiseOr", {"BitwiseOr", {i({12, 0}), i({10, 5})}, {}, 18}, {14, 5}},
    {"BitwiseXor", {"BitwiseXor", {i({12, -1}), i({10, 5})}, {}, 18}, {6, -6}},
    {"BitShiftLeft", {"BitShift", {i({1, 3}), i({4, 64})}, {attr("direction", "LEFT")}}, {16, 0}},
    {"BitShiftRight", {"BitShift", {i({16, 3}), i({4, 1})}, {attr("direction", "RIGHT")}}, {1, 1}},
    {"BitCast", {"BitCast", {f({1, -2})}, {attr("to", 6)}, 26}, {1065353216, -1073741824}},
    {"AddFromAxis", {"Add", {floats({2, 2}, {1, 2, 3, 4}), f({10, 20})}, {attr("broadcast", 1), attr("axis", 0)}, 6}, {11, 12, 23, 24}},
    {"ShrinkHard", {"Shrink", {f({-2, -1, 0.5, 2})}, {attr("lambd", 1.5f)}}, {-2, 0, 0, 2}},
    {"ShrinkSoft", {"Shrink", {i({-2, -1, 1, 2})}, {attr("lambd", 1.5f), attr("bias", 1.5f)}}, {0, 0, 0, 0}},
    {"PReluOfChannels", {"PRelu", {floats({1, 2, 1}, {-1, -1}), f({0.5, 2})}, {}, 6}, {-0.5, -2}},
    {"Tanh", {"Tanh", {f({0, 1})}}, {0, 0.761594156}},
    {"Sigmoid", {"Sigmoid", {f({0, 1})}}, {0.5, 0.731058579}},
    {"Relu", {"Relu", {f({-1, 2})}}, {0, 2}},
    {"Not", {"Not", {b({0, 1})}}, {1, 0}},
    {"Add", {"Add", {f({1, 2}), f({10, 20})}}, {11, 22}},
    {"AddBroadcast", {"Add", {f({1, 2}), floats({}, {5})}}, {6, 7}},
    {"Sub", {"Sub", {f({1, 2}), f({10, 30})}}, {-9, -28}},
    {"Mul", {"Mul", {f({2, 3}), f({4, 5})}}, {8, 15}},
    {"Div", {"Div", {f({1, 9}), f({4, 3})}}, {0.25, 3}},
    {"DivIntegersTruncates", {"Div", {i({-7, 7}), i({2, 2})}}, {-3, 3}},
    {"ModTakesDivisorsSign", {"Mod", {i({-7, 7}), i({3, -3})}}, {2, -2}},
    {"FmodTakesDividendsSign", {"Mod", {f({-7.5, 7.5}), f({3, -3})}, {attr("fmod", 1)}}, {-1.5, 1.5}},
    {"Pow", {"Pow", {f({2, 3}), f({3, 0.5})}}, {8, 1.732050808}},
    {"PowIntegerExponent", {"Pow", {f({2, 3}), i({3, 2})}}, {8, 9}},
    {"PowIntegerBase", {"Pow", {i({4, 9}), f({0.5, 1.5})}}, {2, 27}},
    {"And", {"And", {b({1, 1}), b({0, 1})}}, {0, 1}},
    {"Or", {"Or", {b({0, 0}), b({0, 1})}}, {0, 1}},
    {"Xor", {"Xor", {b({1, 1}), b({0, 1})}}, {1, 0}},
    {"Equal", {"Equal", {i({1, 2}), i({1, 3})}}, {1, 0}},
    {"Less", {"Less", {f({1, 2}), f({1, 3})}}, {0, 1}},
    {"LessOrEqual", {"LessOrEqual", {f({1, 4}), f({1, 3})}}, {1, 0}},
    {"Greater", {"Greater", {f({1, 4}), f({1, 3})}}, {0, 1}},
    {"GreaterOrEqual", {"GreaterOrEqual", {f({1, 2}), f({1, 3})}}, {1, 0}},
    {"MinOfThree", {"Min", {f({1, 5}), f({2, 2}), f({3, 1})}}, {1, 1}},
    {"MaxOfOne", {"Max", {f({1, 5})}}, {1, 5}},
    {"Sum", {"Sum", {f({1, 5}), f({2, 2}), f({3, 1})}}, {6, 8}},
    {"Mean", {"Mean", {f({1, 5}), f({2, 2}), f({3, 2})}}, {2, 3}},
    {"IsNaN", {"IsNaN", {f({1, kNan})}}, {0, 1}},
    {"IsInf", {"IsInf", {f({kInf, -kInf, 1})}}, {1, 1, 0}},
    {"IsInfPositive", {"IsInf", {f({kInf, -kInf, 1})}, {attr("detect_negative", 0)}}, {1, 0, 0}},
    {"IsInfNegative", {"IsInf", {f({kInf, -kInf, 1})}, {attr("detect_positive", 0)}}, {0, 1, 0}},
    {"IsInfNone", {"IsInf", {f({kInf, -kInf, 0})}, {attr("detect_positive", 0), attr("detect_negative", 0)}}, {0, 0, 0}},
    {"Where", {"Where", {b({1, 0}), f({1, 2}), f({3, 4})}}, {1, 4}},
    {"CastTruncates", {"Cast", {f({-1.7, 2.9})}, {attr("to", 7)}}, {-1, 2}},
    {"CastToBool", {"Cast", {f({0, 0.3})}, {attr("to", 9)}}, {0, 1}},
    {"CastLike", {"CastLike", {f({-1.7, 2.9}), i({0, 0})}}, {-1, 2}},
    {"ClipInputs", {"Clip", {f({-3, 0, 3}), floats({}, {-1}), floats({}, {2})}}, {-1, 0, 2}},
    {"ClipOneElementBound", {"Clip", {f({-3, 0, 3}), floats({1}, {-1})}}, {-1, 0, 3}},
    {"ClipBoundsCrossed", {"Clip", {f({-3, 0, 3}), floats({}, {2}), floats({}, {1})}}, {1, 1, 1}},
    {"ClipAttributes", {"Clip", {f({-3, 0, 3})}, {attr("max", 2.0f)}, 7}, {-3, 0, 2}},

    {"LeakyRelu", {"LeakyRelu", {f({-1, 2})}, {attr("alpha", 0.1f)}}, {-0.1, 2}},
    {"PRelu", {"PRelu", {f({-1, 2}), f({0.25, 7})}}, {-0.25, 2}},
    {"ThresholdedRelu", {"ThresholdedRelu", {f({1, 2})}, {attr("alpha", 1.5f)}}, {0, 2}},
    {"HardSigmoid", {"HardSigmoid", {f({-9, 1, 9})}}, {0, 0.7, 1}},
    {"HardSwish", {"HardSwish", {f({-4, 1, 4})}}, {0, 0.666666667, 4}},
    {"Elu", {"Elu", {f({-1, 2})}, {attr("alpha", 2.0f)}}, {-1.264241118, 2}},
    {"Celu", {"Celu", {f({-1, 2})}, {attr("alpha", 2.0f)}}, {-0.786938681, 2}},
    {"Selu", {"Selu", {f({-1, 2})}}, {-1.111330738, 2.101402044}},
    {"Softplus", {"Softplus", {f({-1, 1, 1000})}}, {0.313261688, 1.313261688, 1000}},
    {"Softsign", {"Softsign", {f({-1, 3})}}, {-0.5, 0.75}},
    {"Mish", {"Mish", {f({1})}, {}, 18}, {0.865098388}},
    {"Swish", {"Swish", {f({1})}, {}, 24}, {0.731058579}},
    {"SwishAlpha", {"Swish", {f({1})}, {attr("alpha", 2.0f)}, 24}, {0.880797078}},
    {"Gelu", {"Gelu", {f({1})}, {}, 20}, {0.841344746}},
    {"GeluTanh", {"Gelu", {f({1})}, {attr("approximate", "tanh")}, 20}, {0.841191991}},
}), [](const auto& info) { return info.param.name; });
// clang-format on

TEST(PointwiseTypes, ResultsKeepTheOnnxTypes) {
  EXPECT_EQ(OneOp({"Pow", {i({4}), f({0.5})}}).run().dtype(), DType::kInt64);
  EXPECT_EQ(OneOp({"Cast", {f({4})}, {attr("to", 10)}}).run().dtype(), DType::kFloat16);
  EXPECT_EQ(OneOp({"Cast", {f({4})}, {attr("to", 16)}}).run().dtype(), DType::kBFloat16);
  EXPECT_EQ(OneOp({"Equal", {f({4}), f({4})}}).run().dtype(), DType::kBool);
}

TEST(PointwiseTypes, OneCompositionHasOneNode) {
  // What ir has an operator for is that operator, not a composition.
  for (const char* op : {"Gelu", "Sigmoid", "Relu", "Tanh", "Erf"}) {
    const auto imported = OneOp({op, {f({1})}, {}, 20}).model().import();
    EXPECT_EQ(imported.graph.nodes().size(), 1u) << op;
  }
}

}  // namespace
}  // namespace sinter::frontend
