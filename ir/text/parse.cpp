// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph_checks.h"
#include "ir/parallel.h"
#include "ir/text/lexer.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

constexpr int kMaxNesting = 16;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

/// Standard normal deviates: SplitMix64 and the Box-Muller transform.
class NormalGenerator {
 public:
  /// Starts at number `first` of the seed's sequence.
  NormalGenerator(std::uint64_t seed, std::size_t first) : state_(seed + 2 * first * kStep) {}

  double next() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  /// In (0, 1].
  double uniform() {
    state_ += kStep;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return static_cast<double>((z >> 11) + 1) * 0x1p-53;
  }

  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ull;
  std::uint64_t state_;
};

/// Distributed like 8-bit weights: normal, with the range's ends at four deviations.
double random_byte(DType type, NormalGenerator& normal) {
  constexpr double kDeviation = 32;
  const double least = type == DType::kUInt8 ? 0 : -128;
  return std::clamp(std::round(least + 128 + kDeviation * normal.next()), least, least + 255);
}

/// Parses one graph; other parsers on the same lexer parse the bodies of its nodes.
class GraphParser {
 public:
  GraphParser(text::Lexer& lexer, const ConstantPool& pool, int nesting)
      : lexer_(lexer), pool_(pool), nesting_(nesting) {}

  Graph graph() {
    lexer_.expect("graph");
    lexer_.expect("@");
    builder_ = GraphBuilder(lexer_.name("the graph's name"));
    lexer_.expect("(");
    if (!lexer_.accept(")")) {
      do {
        const Token token = value_token();
        lexer_.expect(":");
        define(token, builder_.input(token.name, lexer_.type()));
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    if (lexer_.accept("ranges")) ranges();
    return block();
  }

  /// The body of a fused node, after "body"; its inputs have the types of the node's.
  Graph body(const std::vector<TensorType>& types, const Ranges& outer,
             std::vector<std::string>& origins) {
    if (lexer_.accept("@")) builder_ = GraphBuilder(lexer_.name("the body's name"));
    lexer_.expect("(");
    std::size_t count = 0;
    if (!lexer_.accept(")")) {
      do {
        const Token token = value_token();
        if (count == types.size())
          lexer_.fail_at(token.position,
                         fmt::format("the body has more inputs than its node's {}", types.size()));
        define(token, builder_.input(token.name, types[count++]));
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    if (count != types.size())
      lexer_.fail(fmt::format("the body has {} inputs, but its node has {}", count, types.size()));
    if (lexer_.accept("ranges")) {
      ranges();
    } else {
      for (const auto& [symbol, range] : outer) builder_.range(symbol, range);
    }
    return block(&origins);
  }

 private:
  /// A value as written: its key, and its name if it has one.
  struct Token {
    std::size_t position = 0;
    std::string key, name;
  };

  Token value_token() {
    Token token;
    lexer_.skip();
    token.position = lexer_.position();
    lexer_.expect("%");
    bool quoted = false;
    std::string name = lexer_.name("a value's name", &quoted);
    const bool number =
        !quoted && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    token.key = (number ? "#" : "n") + name;
    if (!number) token.name = std::move(name);
    return token;
  }

  void define(const Token& token, ValueId value) {
    if (!values_.emplace(token.key, value).second)
      lexer_.fail_at(token.position,
                     fmt::format("value %{} is already defined", token.key.substr(1)));
    if (!token.name.empty()) builder_.name(value, token.name);
  }

  ValueId use() {
    const Token token = value_token();
    const auto found = values_.find(token.key);
    if (found == values_.end())
      lexer_.fail_at(token.position, fmt::format("value %{} is not defined", token.key.substr(1)));
    return found->second;
  }

  /// Runs `action`; its errors get position `start`.
  template <typename Action>
  auto at(std::size_t start, Action&& action) {
    try {
      return action();
    } catch (const Error& error) {
      lexer_.fail_at(start, error.what());
    }
  }

  void ranges() {
    lexer_.expect("{");
    if (lexer_.accept("}")) return;
    do {
      lexer_.skip();
      const std::size_t start = lexer_.position();
      const auto symbol = lexer_.dim().as_symbol();
      if (!symbol) lexer_.fail_at(start, "expected the name of a dimension");
      lexer_.expect(":");
      Range range;
      range.min = lexer_.integer();
      lexer_.expect("..");
      if (!lexer_.peek(",") && !lexer_.peek("}") && !lexer_.peek("max") && !lexer_.peek("data"))
        range.max = lexer_.integer();
      if (lexer_.accept("max")) range.symbolic_max = std::make_shared<const Dim>(lexer_.dim());
      range.from_data = lexer_.accept("data");
      at(start, [&] { builder_.range(*symbol, range); });
    } while (lexer_.accept(","));
    lexer_.expect("}");
  }

  void states() {
    lexer_.expect("{");
    do {
      State state;
      lexer_.expect("output");
      state.output = static_cast<int>(lexer_.integer());
      lexer_.expect("->");
      lexer_.expect("input");
      state.input = static_cast<int>(lexer_.integer());
      builder_.state(state);
    } while (lexer_.accept(","));
    lexer_.expect("}");
  }

  Graph block(std::vector<std::string>* origins = nullptr) {
    if (lexer_.accept("states")) states();
    lexer_.expect("{");
    if (origins) *origins = lexer_.origins();
    while (lexer_.peek("%")) statement();
    lexer_.expect("return");
    const std::size_t start = lexer_.position();
    do {
      std::string name;
      if (!lexer_.peek("%")) {
        name = lexer_.name("the output's name");
        lexer_.expect("=");
      }
      builder_.output(name, use());
    } while (lexer_.accept(","));
    lexer_.expect("}");
    return at(start, [&] { return builder_.finish(); });
  }

  void statement() {
    std::vector<Token> targets;
    do {
      targets.push_back(value_token());
    } while (lexer_.accept(","));
    lexer_.expect("=");
    lexer_.skip();
    const std::size_t start = lexer_.position();
    if (lexer_.accept("const")) {
      if (targets.size() != 1) lexer_.fail_at(start, "a constant is one value");
      define(targets.front(), builder_.constant(constant()));
      return;
    }
    lexer_.origins();  // discards those of a preceding constant
    const auto results = node(start);
    if (results.size() != targets.size())
      lexer_.fail_at(start, fmt::format("the node has {} outputs, but {} are named", results.size(),
                                        targets.size()));
    for (std::size_t i = 0; i < results.size(); ++i) define(targets[i], results[i]);
  }

  std::vector<ValueId> node(std::size_t start) {
    const std::string op_name = lexer_.word("an operator");
    const OpDef* op = find_op(op_name);
    if (!op) lexer_.fail_at(start, fmt::format("unknown operator '{}'", op_name));
    std::vector<ValueId> inputs;
    lexer_.expect("(");
    if (!lexer_.accept(")")) {
      do {
        inputs.push_back(use());
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    Attrs attrs;
    if (lexer_.accept("{")) attrs = attributes(*op);

    std::vector<TensorType> stated;
    lexer_.skip();
    std::size_t types_at = lexer_.position();
    std::vector<std::string> origins;
    // Origins end the line: they follow the types, or the brace that opens a body.
    if (lexer_.accept(":")) {
      lexer_.skip();
      types_at = lexer_.position();
      do {
        stated.push_back(lexer_.type());
      } while (lexer_.accept(","));
    }
    origins = lexer_.origins();
    std::shared_ptr<const Graph> body;
    if (lexer_.accept("body")) {
      if (nesting_ == kMaxNesting) lexer_.fail("bodies are nested too deeply");
      std::vector<TensorType> types;
      for (const ValueId id : inputs) types.push_back(builder_.type(id));
      if (op->body_inputs)
        types = at(start, [&] { return op->body_inputs(complete_attrs(*op, attrs), types); });
      body = std::make_shared<const Graph>(
          GraphParser(lexer_, pool_, nesting_ + 1).body(types, builder_.ranges(), origins));
    }

    const GraphBuilder::OriginScope scope(builder_, std::move(origins));
    const auto results =
        at(start, [&] { return builder_.add_multi(op_name, inputs, std::move(attrs), body); });
    for (std::size_t i = 0; i < stated.size(); ++i)
      if (i >= results.size() || !(builder_.type(results[i]) == stated[i]))
        lexer_.fail_at(
            types_at,
            fmt::format("{}: the type of output {} is stated as {}, but is {}", op_name, i,
                        to_string(stated[i]),
                        i < results.size() ? to_string(builder_.type(results[i])) : "missing"));
    return results;
  }

  Attrs attributes(const OpDef& op) {
    Attrs attrs;
    if (lexer_.accept("}")) return attrs;
    do {
      lexer_.skip();
      const std::size_t start = lexer_.position();
      const std::string name = lexer_.word("an attribute's name");
      const auto spec = std::ranges::find_if(
          op.attrs, [&](const AttrSpec& candidate) { return candidate.name == name; });
      if (spec == op.attrs.end())
        lexer_.fail_at(start, fmt::format("{} has no attribute '{}'", op.name, name));
      lexer_.expect("=");
      attrs.set(name, attribute(spec->kind));
    } while (lexer_.accept(","));
    lexer_.expect("}");
    return attrs;
  }

  Attr attribute(AttrKind kind) {
    switch (kind) {
      case AttrKind::kInt: return lexer_.integer();
      case AttrKind::kFloat: return real();
      case AttrKind::kString: return lexer_.string();
      case AttrKind::kDims: return lexer_.shape();
      case AttrKind::kDType: return lexer_.dtype();
      case AttrKind::kInts: break;
    }
    Ints values;
    lexer_.expect("[");
    if (lexer_.accept("]")) return values;
    do {
      values.push_back(lexer_.integer());
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return values;
  }

  double real() {
    std::byte bytes[sizeof(double)];
    element(DType::kFloat64, bytes);
    return load_as_double(DType::kFloat64, bytes);
  }

  void element(DType dtype, std::byte* p) {
    lexer_.skip();
    const std::size_t start = lexer_.position();
    const std::string_view literal = lexer_.literal("a number");
    if (!text::parse_element(dtype, literal, p))
      lexer_.fail_at(start,
                     fmt::format("'{}' is not a value of type {}", literal, to_string(dtype)));
  }

  std::shared_ptr<const Tensor> constant() {
    lexer_.skip();
    const std::size_t start = lexer_.position();
    const TensorType type = lexer_.type();
    Ints shape;
    for (const Dim& dim : type.shape) {
      if (!dim.is_constant() || dim.value() < 0)
        lexer_.fail_at(start, "a constant's dimensions must be non-negative integers");
      shape.push_back(dim.value());
    }
    if (const auto hash = lexer_.hash()) {
      const auto found = pool_.find(*hash);
      if (found == pool_.end())
        lexer_.fail_at(start, fmt::format("constant #{:016x} is not in the pool", *hash));
      if (!(found->second->type() == type))
        lexer_.fail_at(start, fmt::format("constant #{:016x} is {}, not {}", *hash,
                                          to_string(found->second->type()), to_string(type)));
      return found->second;
    }
    const std::int64_t count = at(start, [&] { return element_count(type.shape).value(); });
    if (count > kMaxElements)
      lexer_.fail_at(start, fmt::format("a constant of {} elements is too large for text", count));
    const std::size_t size = size_of(type.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
    const auto end = bytes.size();
    if (lexer_.accept("splat")) {
      std::byte value[8];
      lexer_.expect("(");
      element(type.dtype, value);
      lexer_.expect(")");
      for (std::size_t i = 0; i < end; i += size) std::copy_n(value, size, bytes.data() + i);
    } else if (lexer_.accept("random")) {
      const bool bytes_alone = type.dtype == DType::kInt8 || type.dtype == DType::kUInt8;
      if (!is_float(type.dtype) && !bytes_alone)
        lexer_.fail_at(start, "only floats and integers of 8 bits may be random");
      lexer_.expect("(");
      const auto seed = static_cast<std::uint64_t>(lexer_.integer());
      lexer_.expect(")");
      constexpr std::size_t kAtOnce = 1 << 16;  // per thread
      for_each_range(end / size, kAtOnce, [&](std::size_t i, std::size_t last) {
        NormalGenerator generator(seed, i);
        for (; i < last; ++i)
          store_double(type.dtype, bytes.data() + i * size,
                       bytes_alone ? random_byte(type.dtype, generator) : generator.next());
      });
    } else {
      lexer_.expect("{");
      for (std::size_t i = 0; i < end; i += size) {
        if (i > 0) lexer_.expect(",");
        element(type.dtype, bytes.data() + i);
      }
      lexer_.expect("}");
    }
    return std::make_shared<const Tensor>(type.dtype, std::move(shape),
                                          Buffer::take(std::move(bytes)));
  }

  text::Lexer& lexer_;
  const ConstantPool& pool_;
  int nesting_;
  GraphBuilder builder_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

Graph parse_graph(std::string_view text, const ConstantPool& pool) {
  text::Lexer lexer(text);
  Graph graph = GraphParser(lexer, pool, 0).graph();
  if (!lexer.at_end()) lexer.fail("unexpected text behind the graph");
  return graph;
}

}  // namespace sinter::ir
