#include "tools/compiler/inspect/expressions.h"

#include <fmt/format.h>

namespace sinter::tools {

std::vector<std::string> expression_texts(const plan::fb::PlanT& plan) {
  using plan::fb::ExprOp;
  std::vector<std::string> texts;
  // Sums are wrapped where they are a factor.
  const auto factor = [&](std::uint32_t i) {
    const auto op = plan.expressions[i].op();
    return op == ExprOp::Add || op == ExprOp::Sub ? "(" + texts[i] + ")" : texts[i];
  };
  for (const auto& node : plan.expressions) {
    const auto a = node.a(), b = node.b();
    switch (node.op()) {
      case ExprOp::Constant: texts.push_back(std::to_string(node.value())); break;
      case ExprOp::Symbol: texts.push_back(plan.symbols[a]->name); break;
      case ExprOp::Add: texts.push_back(texts[a] + " + " + texts[b]); break;
      case ExprOp::Sub: texts.push_back(texts[a] + " - " + factor(b)); break;
      case ExprOp::Mul: texts.push_back(factor(a) + "*" + factor(b)); break;
      case ExprOp::FloorDiv:
        texts.push_back(fmt::format("floordiv({}, {})", texts[a], texts[b]));
        break;
      case ExprOp::Min: texts.push_back(fmt::format("min({}, {})", texts[a], texts[b])); break;
      case ExprOp::Max: texts.push_back(fmt::format("max({}, {})", texts[a], texts[b])); break;
    }
  }
  return texts;
}

}  // namespace sinter::tools
