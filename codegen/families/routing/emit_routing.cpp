// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/routing/emit_routing.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// Tokens of a tile, at least.
constexpr std::int64_t kLeastTile = 32;
/// Tokens whose block has few warps, which meet sooner.
constexpr int kFewTokens = 4;
constexpr int kMostWarps = 16, kRouteWarps = 8;  // of a block
/// Blocks of a cluster that computes logits, elements that a warp loads at once, vectors of them
/// that a thread keeps.
constexpr int kRouterBlocks = 8, kRouterDepth = 256, kHeldVectors = 8;
constexpr std::int64_t kStaticBytes = 44 * 1024;  // of shared memory, on every GPU

std::string_view score_name(const std::string& scores) {
  if (scores == "softmax") return "kSoftmax";
  if (scores == "sigmoid") return "kSigmoid";
  return scores == "sparsemixer" ? "kSparsemixer" : "kNoScores";
}

std::string number_text(double value) {
  return fmt::format("{:.9e}f", static_cast<double>(static_cast<float>(value)));
}

class RoutingEmitter {
 public:
  RoutingEmitter(const RoutingProblem& problem, const std::vector<std::uint32_t>& scratch,
                 const KernelRequest& request, ExprTable& exprs)
      : p_(problem), scratch_(scratch), request_(request), exprs_(exprs) {}

  EmittedKernel write() {
    text_ = kernel_heading(request_.name, request_.origins) + "#include \"routing.cuh\"\n";
    KernelParameters args(exprs_);
    if (!p_.extent) {
      route_alone(args);
    } else {
      inputs(args);
      results(args);
      if (p_.may_be_many(exprs_)) scratch(args);
      const std::string tokens = args.dim(p_.tokens);
      if (p_.may_be_many(exprs_)) args.dim(tile());  // all variants have the same parameters
      if (has_fewest()) in_one_block(args, tokens, kFewTokens);
      if (p_.may_be_few(exprs_) && !(has_fewest() && is_at_most(kFewTokens)))
        in_one_block(args, tokens, most_of_block());
      if (p_.may_be_many(exprs_)) by_tiles(args, tokens);
    }
    kernel_.step.args = args.args();
    if (p_.kernels_behind(exprs_) > 0) place_tiles();
    kernel_.source = std::move(text_);
    return std::move(kernel_);
  }

 private:
  struct Launch {
    std::string function, schedule;
    Dim blocks;
    int warps = 0;
    std::int64_t most_tokens = kMostTokens;
    int cluster = 1;
    std::int64_t shared_bytes = 0;
    std::string before_wait = {};  // statements that read weights alone
  };
  void add(plan::fb::KernelStepT& step, const Launch& launch, KernelParameters& args,
           const std::string& body) {
    const int threads = 32 * launch.warps;
    const std::string end = args.end_of_blocks(launch.blocks, "blockIdx.x");
    const bool early = request_.programmatic_launch;
    text_ += fmt::format(
        "\n// schedule: {}\nextern \"C\" __global__ void __launch_bounds__({})\n{} "
        "{{\n{}{}{}{}{}{}}}\n",
        launch.schedule, threads, signature_text(launch.function, args.texts()),
        early ? "  launch_dependents();\n" : "", launch.before_wait,
        early ? "  grid_dependency_wait();\n" : "", args.lines(), end,
        (p_.rule ? fmt::format("  typedef {} Form;\n", router_type()) : "") + body);
    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    const auto most = ir::upper_bound(p_.tokens * Dim(p_.chosen), exprs_.ranges());
    if (launch.most_tokens == kMostTokens) {
      if (!most || *most > kMostTokens)
        variant->conditions.emplace_back(exprs_.intern(p_.tokens * Dim(p_.chosen)), 1, kMostTokens);
    } else if (!is_at_most(launch.most_tokens)) {
      variant->conditions.emplace_back(exprs_.intern(p_.tokens), 1, launch.most_tokens);
    }
    variant->function = launch.function;
    variant->schedule = launch.schedule;
    variant->grid = {exprs_.intern(launch.blocks), exprs_.intern(1), exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(threads), 1, 1};
    variant->cluster = static_cast<std::uint32_t>(launch.cluster);
    variant->shared_bytes = static_cast<std::uint32_t>(launch.shared_bytes);
    variant->programmatic_launch = early;
    step.variants.push_back(std::move(variant));
  }
  bool is_at_most(std::int64_t tokens) const {
    const auto most = ir::upper_bound(p_.tokens, exprs_.ranges());
    return most && *most <= tokens;
  }
  bool has_fewest() const {
    return p_.rule && p_.most_of_block() > kFewTokens &&
           ir::lower_bound(p_.tokens, exprs_.ranges()).value_or(0) <= kFewTokens;
  }
  std::string next_name() const {
    const std::size_t number = kernel_.step.variants.size();
    return number == 0 ? request_.name : fmt::format("{}_v{}", request_.name, number);
  }

  std::string router_type() const {
    const RouteRule& r = *p_.rule;
    return fmt::format("Router<{}, {}, {}, {}, {}, {}, {}, {}{}>", r.experts, p_.chosen,
                       score_name(r.scores), r.normalises, r.bias.has_value(), r.groups,
                       r.kept_groups, r.group_scores, r.zero_outside ? ", true" : "");
  }
  std::int64_t scratch_floats() const {
    if (!p_.rule) return 1;
    return p_.chosen + (p_.rule->groups > 1 ? p_.rule->experts + p_.rule->groups : 0);
  }
  /// The most warps whose memory a block may have.
  int warps_of(std::int64_t held) const {
    const std::int64_t bins = *p_.extent + 1;
    const auto bytes = [&](int warps) {
      return 4 * (bins * (warps + 1) + warps * (1 + scratch_floats()) + held);
    };
    int warps = kMostWarps;
    while (warps > 1 && bytes(warps) > kStaticBytes) warps /= 2;
    return warps;
  }
  std::string sorter(int warps, std::int64_t held) const {
    return fmt::format("ChoiceSorter<{}, {}, {}, {}, {}>", p_.rule ? "Form" : "NoRouter", warps,
                       *p_.extent, held, p_.divisor);
  }

  void inputs(KernelParameters& args) const {
    if (!p_.rule) {
      args.buffer("const i32* given", *p_.given);
      return;
    }
    if (const auto& product = p_.rule->product) {
      const std::string type = storage_name(product->type);
      args.buffer(fmt::format("const {}* x", type), product->x);
      args.buffer(fmt::format("const {}* weights", type), product->weights);
      if (product->added)
        args.buffer(fmt::format("const {}* added", storage_name(product->added_type)),
                    *product->added);
    } else {
      args.buffer(fmt::format("const {}* logits", storage_name(p_.rule->type)), p_.rule->logits);
    }
    if (p_.rule->bias)
      args.buffer(fmt::format("const {}* bias", storage_name(p_.rule->bias_type)), *p_.rule->bias);
    if (p_.rule->is_token) args.buffer("const b8* is_token", *p_.rule->is_token);
  }
  void sorted(KernelParameters& args) const {
    const auto result = [&](const char* name, const std::optional<std::uint32_t>& buffer) {
      if (buffer) args.buffer(fmt::format("i32* {}", name), *buffer);
    };
    result("order", p_.order);
    result("offsets", p_.offsets);
    result("tokens_of", p_.tokens_of);
    result("experts_of", p_.experts_of);
    result("rows_of", p_.rows_of);
  }
  void results(KernelParameters& args) const {
    if (p_.choices) args.buffer("i32* choices", *p_.choices);
    if (p_.shares) args.buffer("float* shares", *p_.shares);
    sorted(args);
  }
  /// Where tiles find all choices: a buffer of ours if there is no other.
  bool keeps_choices() const { return p_.rule && !p_.choices; }
  void scratch(KernelParameters& args) const {
    args.buffer("u32* counts", scratch_[0]);
    if (keeps_choices()) args.buffer("i32* kept", scratch_[1]);
  }
  std::string all_choices() const { return !p_.rule ? "given" : p_.choices ? "choices" : "kept"; }

  std::string sorted_text() const {
    const auto name = [](const char* text, const std::optional<std::uint32_t>& buffer) {
      return buffer ? text : "nullptr";
    };
    return fmt::format("  const SortedChoices to = {{{}, {}, {}, {}, {}, {}}};\n",
                       name("order", p_.order), name("offsets", p_.offsets),
                       name("tokens_of", p_.tokens_of), name("experts_of", p_.experts_of),
                       name("rows_of", p_.rows_of), p_.last_expert);
  }

  /// Routes token `t`, which is token `number` of the model, by a warp.
  std::string route_text(const std::string& number, const std::string& memory,
                         const std::string& choices) const {
    const RouteRule& r = *p_.rule;
    return fmt::format(
        "Form::route(logits + i64({0}) * {1}, {2}, {{{3}, {4}, {5}}}, {6}, {7}, {8}, {9}, {10});\n",
        number, r.experts, r.bias ? "bias" : "static_cast<const float*>(nullptr)",
        number_text(r.epsilon), number_text(r.scale), number_text(r.jitter),
        r.is_token ? fmt::format("!widen(is_token[{}])", number) : "false", r.none, memory, choices,
        p_.shares ? fmt::format("shares + i64({}) * {}", number, p_.chosen) : "nullptr");
  }

  /// Without an order: a warp for each token.
  void route_alone(KernelParameters& args) {
    inputs(args);
    results(args);
    const std::string tokens = args.dim(p_.tokens);
    int warps = kRouteWarps;
    while (warps > 1 && 4 * warps * (scratch_floats() + p_.chosen) > kStaticBytes) warps /= 2;
    std::string held, choices = fmt::format("choices + token * {}", p_.chosen);
    if (!p_.choices) {
      held = fmt::format("  __shared__ i32 chosen[{}][{}];\n", warps, p_.chosen);
      choices = "chosen[threadIdx.x / 32]";
    }
    add(kernel_.step,
        {request_.name, fmt::format("routing warps={}", warps),
         ir::ceil_div(p_.tokens, Dim(warps), exprs_.ranges()), warps},
        args,
        fmt::format("  __shared__ float scratch[{0}][Form::kScratch];\n{1}"
                    "  const i64 token = i64(blockIdx.x) * {0} + threadIdx.x / 32;\n"
                    "  if (token >= {2}) return;\n  {3}",
                    warps, held, tokens,
                    route_text("token", "scratch[threadIdx.x / 32]", choices)));
  }

  bool has_product() const { return p_.rule && p_.rule->product; }
  /// The tokens of a product are known to be few: their logits are in shared memory.
  std::int64_t most_of_block() const {
    return has_product() ? *ir::upper_bound(p_.tokens, exprs_.ranges()) : p_.most_of_block();
  }
  /// As few blocks as keep all weights in registers, which they read ahead; of more tokens, those
  /// that read most at a time. One where there are no clusters.
  int router_blocks(std::int64_t most) const {
    const int least = most <= kFewTokens ? 1 : kRouterBlocks;
    int blocks = request_.device->has_clusters() ? least : 1;
    const std::int64_t loads = (p_.rule->product->depth + kRouterDepth - 1) / kRouterDepth;
    const auto held = [&] {
      const std::int64_t warps = std::int64_t{blocks} * kMostWarps;
      return (p_.rule->experts + warps - 1) / warps * loads;
    };
    while (request_.device->has_clusters() && blocks < kRouterBlocks && held() > kHeldVectors)
      blocks *= 2;
    return blocks;
  }
  std::string product_type(int warps, int blocks) const {
    const RouterOperands& product = *p_.rule->product;
    return fmt::format("RouterProduct<{}, {}, {}, {}, {}>", storage_name(product.type),
                       p_.rule->experts, product.depth, blocks, warps);
  }
  std::string begin_product(int warps, int blocks) const {
    return fmt::format(
        "  typedef {} Product;\n  SINTER_DYNAMIC_SHARED(memory);\n"
        "  float* const logits = reinterpret_cast<float*>(memory);\n{}"
        "  Product product;\n  product.begin(weights);\n",
        product_type(warps, blocks), blocks > 1 ? "  cluster_arrive();\n" : "");
  }
  std::string product_text(int blocks) const {
    return fmt::format(
        "{}  product.multiply(weights, after_grid_wait(x), {}, tokens, logits);\n"
        "  if (Product::rank() != 0) return;\n",
        blocks > 1 ? "  cluster_wait();\n" : "",
        p_.rule->product->added ? "added" : "static_cast<const float*>(nullptr)");
  }

  void in_one_block(KernelParameters& args, const std::string& tokens, std::int64_t most) {
    const std::int64_t held = p_.rule ? most * p_.chosen : 1;
    const int wanted = most <= kFewTokens && !has_product() ? kFewTokens : kMostWarps;
    const int blocks = has_product() ? router_blocks(most) : 1;
    const int warps = std::min(warps_of(held), wanted);
    std::string body = fmt::format("  typedef {} Sorter;\n  __shared__ Sorter sorter;\n{}",
                                   sorter(warps, held), sorted_text());
    body += fmt::format("  const int tokens = int({});\n", tokens);
    if (has_product()) body += product_text(blocks);
    if (p_.rule) {
      body += fmt::format("  for (int t = Sorter::warp(); t < tokens; t += {})\n    {}", warps,
                          route_text("t", "sorter.scratch[Sorter::warp()]",
                                     fmt::format("sorter.held + t * {}", p_.chosen)));
      body += "  __syncthreads();\n";
      if (p_.choices)
        body += fmt::format(
            "  for (int i = int(threadIdx.x); i < tokens * {}; i += {})\n"
            "    choices[i] = sorter.held[i];\n",
            p_.chosen, 32 * warps);
    }
    body += fmt::format("  sorter.sort({}, tokens * {}, to);\n", p_.rule ? "sorter.held" : "given",
                        p_.chosen);
    Launch launch{next_name(), fmt::format("routing block warps={}", warps), Dim(1), warps, most};
    if (has_product()) {
      launch.schedule = fmt::format("routing product warps={} cluster={}", warps, blocks);
      launch.blocks = Dim(blocks);
      launch.cluster = blocks;
      launch.shared_bytes = most * p_.rule->experts * 4;
      launch.before_wait = begin_product(warps, blocks);
    }
    add(kernel_.step, launch, args, body);
  }

  Dim tile() const {
    const Ranges& ranges = exprs_.ranges();
    return ir::max(ir::ceil_div(p_.tokens, Dim(kMostTiles), ranges), Dim(least_tile()), ranges);
  }
  std::int64_t least_tile() const { return p_.rule ? kLeastTile : kBlockChoices; }
  Dim tiles() const { return ir::ceil_div(p_.tokens, tile(), exprs_.ranges()); }
  std::string tile_text(KernelParameters& args, const std::string& tokens) const {
    return fmt::format(
        "  const i64 first = i64(blockIdx.x) * {0};\n"
        "  if (first >= {1}) return;\n"
        "  const int tokens = int(first + {0} < {1} ? i64({0}) : {1} - first);\n",
        args.dim(tile()), tokens);
  }

  void by_tiles(KernelParameters& args, const std::string& tokens) {
    const int warps = warps_of(1);
    std::string body = tile_text(args, tokens);
    body += fmt::format("  typedef {} Sorter;\n  __shared__ Sorter sorter;\n", sorter(warps, 1));
    if (p_.rule) {
      body +=
          fmt::format("  for (int t = Sorter::warp(); t < tokens; t += {})\n    {}", warps,
                      route_text("(first + t)", "sorter.scratch[Sorter::warp()]",
                                 fmt::format("{} + (first + t) * {}", all_choices(), p_.chosen)));
      body += "  __syncthreads();\n";
    }
    body += fmt::format("  sorter.count_tile({0} + first * {1}, tokens * {1}, counts);\n",
                        all_choices(), p_.chosen);
    add(kernel_.step, {next_name(), fmt::format("routing tiles warps={}", warps), tiles(), warps},
        args, body);
  }

  void place_tiles() {
    KernelParameters args(exprs_);
    args.buffer("const u32* counts", scratch_[0]);
    const std::uint32_t choices = !p_.rule ? *p_.given : p_.choices ? *p_.choices : scratch_[1];
    args.buffer(fmt::format("const i32* {}", all_choices()), choices);
    sorted(args);
    const std::string tokens = args.dim(p_.tokens);
    const int warps = warps_of(1);
    const std::string blocks = args.dim(tiles());
    std::string body = tile_text(args, tokens);
    body += fmt::format(
        "  typedef {0} Sorter;\n  __shared__ Sorter sorter;\n{1}"
        "  sorter.place_tile({3} + first * {2}, tokens * {2}, first * {2}, counts, int({4}), "
        "to);\n",
        sorter(warps, 1), sorted_text(), p_.chosen, all_choices(), blocks);
    // No blocks for what one block has sorted.
    const Ranges& ranges = exprs_.ranges();
    const Dim is_needed =
        p_.may_be_few(exprs_)
            ? ir::min(ir::floor_div(p_.tokens, Dim(p_.most_of_block() + 1), ranges), Dim(1), ranges)
            : Dim(1);
    plan::fb::KernelStepT step;
    add(step,
        {request_.name + "_place", fmt::format("routing tiles warps={}", warps),
         tiles() * is_needed, warps},
        args, body);
    step.args = args.args();
    kernel_.more.push_back(std::move(step));
  }

  const RoutingProblem& p_;
  const std::vector<std::uint32_t>& scratch_;
  const KernelRequest& request_;
  ExprTable& exprs_;
  std::string text_;
  EmittedKernel kernel_;
};

}  // namespace

EmittedKernel emit_routing(const RoutingProblem& problem, const std::vector<std::uint32_t>& scratch,
                           const KernelRequest& request, ExprTable& exprs) {
  return RoutingEmitter(problem, scratch, request, exprs).write();
}

}  // namespace sinter::codegen
