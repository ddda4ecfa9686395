// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_tactics.h"

#include <algorithm>

#include <sinter/error.h>

namespace sinter::codegen {
namespace {

bool is_fixed(const GemmOperand& operand) {
  return operand.offset.is_constant() && operand.stride.is_constant() &&
         std::ranges::all_of(operand.batch_strides, &Dim::is_constant);
}

/// True if the vector widths of copies do not depend on unknown sizes.
bool takes_all_sizes(const GemmProgram& product) {
  if (!product.n.is_constant() || !product.k.is_constant()) return false;
  if (product.windows)
    return product.windows->channels.is_constant() && product.windows->pitch.is_constant();
  return is_fixed(product.a) && is_fixed(product.b);
}

bool is_small_m_schedule(const std::string& requested) {
  return requested.starts_with("small_m ") || requested.starts_with("int8_gemv ");
}

class TacticList {
 public:
  TacticList(const GemmStep& product, const std::string& requested,
             const GemmKernelQueries& kernels)
      : product_(product), requested_(requested), kernels_(kernels) {
    const bool few = is_small_m_schedule(requested);
    packs_elements_ = (requested.empty() || few) && !product.is_conv() && !is_quantized() &&
                      !product.is_eight_bit();
    find_kernels();
    if (!packs_elements_ || whole_ || with_prologue_ || (alone_ && product.reduces())) return;
    packs_elements_ = false;
    find_kernels();
  }

  std::vector<GemmTactic> run() {
    const bool unpacked = requested_ == "dequantized" || requested_ == "library";
    if (!requested_.empty() && !unpacked &&
        (with_prologue_ || whole_ || alone_ || groups_ || warpgroups_alone_)) {
      if (with_prologue_) add(prologue_tactic());
      if (whole_) add(whole_tactic());
      if (alone_) add(alone_tactic());
      if (groups_) add(warpgroups_tactic());
      if (warpgroups_alone_) add(warpgroups_alone_tactic());
    } else if (const auto only = tactic_of_one_order()) {
      add(*only);
    } else if (product_.is_conv() || product_.is_eight_bit()) {
      own_last();
    } else if (is_quantized()) {
      quantized();
    } else if (packs_elements_) {
      packed();
    } else {
      if (with_prologue_) add(limited(prologue_tactic()));
      if (whole_) add(limited(whole_tactic()));
      if (groups_) add(limited(warpgroups_tactic()));
      if (alone_) add(limited(alone_tactic()));
      if (warpgroups_alone_) add(limited(warpgroups_alone_tactic()));
      add(library_tactic(whole_ ? "library" : "library; no kernel of our own: " + refusal_));
    }
    return std::move(tactics_);
  }

 private:
  void find_kernels() {
    refusal_ = requested_.empty() ? "" : "the compiler was asked for '" + requested_ + "'";
    const bool any = requested_.empty(), scheduled = is_schedule(requested_);
    std::string ignored;
    const bool unpacked =
        is_quantized() && (requested_ == "dequantized" || requested_ == "library");
    if (any || unpacked || (scheduled && !is_warpgroup_schedule(requested_))) {
      whole_ = kernel(true, false, refusal_);
      if (product_.prologue() && (any || is_small_m_schedule(requested_)))
        with_prologue_ = kernel(true, false, prologue_refusal_, true);
      if (scheduled && with_prologue_) whole_.reset();
    }
    // Warpgroup kernels read weights unpacked.
    if (!packs_elements_ &&
        (any || requested_ == "warp-specialized" || is_warpgroup_schedule(requested_)))
      groups_ = kernel(true, true, any ? ignored : refusal_);
    if (!product_.epilogue()) return;
    if (requested_ == "alone" || ((any || is_quantized()) && (!whole_ || product_.reduces())))
      alone_ = kernel(false, false, ignored);
    if (!packs_elements_ &&
        (requested_ == "warp-specialized alone" || (any && (!groups_ || product_.reduces()))))
      warpgroups_alone_ = kernel(false, true, ignored);
  }

  std::optional<GemmProgram> kernel(bool with_epilogue, bool by_warpgroups, std::string& refusal,
                                    bool with_prologue = false) {
    auto program = product_.kernel(with_epilogue, with_prologue, refusal);
    if (packs_elements_ && program) packs_elements_ = kernels_.takes_elements(*program);
    if (packs_elements_ && program) {
      program->weights.emplace();
    }
    return accept(std::move(program), by_warpgroups, refusal);
  }

  std::optional<GemmProgram> accept(std::optional<GemmProgram> kernel, bool by_warpgroups,
                                    std::string& refusal) const {
    if (by_warpgroups && !kernels_.have_warpgroups) return std::nullopt;
    if (!kernel) return std::nullopt;
    kernel->by_warpgroups = by_warpgroups;
    return kernels_.accept(std::move(kernel), refusal);
  }

  void add(GemmTactic tactic) {
    if (product_.prologue() && !tactic.kernel_has_prologue()) {
      tactic.prologue_first = true;
      tactic.name = "prologue, then " + tactic.name;
      if (tactic.conditions.empty() && !prologue_refusal_.empty())
        tactic.name += "; not in one kernel: " + prologue_refusal_;
    }
    tactics_.push_back(std::move(tactic));
  }

  GemmTactic prologue_tactic() const {
    return {"gemm with its prologue", {}, with_prologue_, {}, false};
  }
  GemmTactic whole_tactic() const { return {"gemm", {}, whole_, {}, false}; }
  GemmTactic alone_tactic() const { return {"gemm, then its epilogue", {}, alone_, {}, true}; }
  GemmTactic warpgroups_tactic() const { return {"warp-specialized gemm", {}, groups_, {}, false}; }
  GemmTactic warpgroups_alone_tactic() const {
    return {"warp-specialized gemm, then its epilogue", {}, warpgroups_alone_, {}, true};
  }
  GemmTactic library_tactic(std::string name) const {
    return {std::move(name), {}, {}, {}, product_.epilogue().has_value()};
  }
  GemmTactic limited(GemmTactic tactic) const {
    tactic.conditions = kernels_.limits(*tactic.kernel);
    return tactic;
  }

  bool is_quantized() const { return product_.is_quantized(); }

  /// For many rows: dequantizes the weights first, then uses warpgroups or the library.
  void unpacked() {
    const auto unpacking = kernels_.unpack(whole_ ? *whole_ : *alone_);
    if (!unpacking) return;
    const auto add_unpacked = [&](GemmTactic tactic) {
      tactic.name = "dequantized weights, " + tactic.name;
      tactic.conditions = unpacking->conditions;
      tactic.unpacking = unpacking;
      add(std::move(tactic));
    };
    const auto by_warpgroups = [&](bool with_epilogue) {
      std::string ignored;
      auto kernel = product_.kernel(with_epilogue, false, ignored);
      if (kernel) kernel = with_unpacked_weights(std::move(*kernel), *unpacking);
      return accept(std::move(kernel), true, ignored);
    };
    // With an epilogue the library needs another kernel; without, it is the better guess.
    const bool library_first = !product_.epilogue();
    if (library_first) add_unpacked(library_tactic("library"));
    if (requested_ != "library") {
      if (auto whole = by_warpgroups(true))
        add_unpacked({"warp-specialized gemm", {}, std::move(whole), {}, false});
      else if (auto alone = product_.epilogue() ? by_warpgroups(false) : std::nullopt)
        add_unpacked({"warp-specialized gemm, then its epilogue", {}, std::move(alone), {}, true});
    }
    if (!library_first) add_unpacked(library_tactic("library"));
  }

  /// Quantized weights: the library has no such GEMM.
  void quantized() {
    if (!whole_ && !alone_) throw Error(ErrorCode::kUnsupported, "quantized weights: " + refusal_);
    const bool asked = requested_ == "dequantized" || requested_ == "library";
    if (groups_)
      add(limited(warpgroups_tactic()));
    else if (warpgroups_alone_)
      add(limited(warpgroups_alone_tactic()));
    if (requested_.empty() || asked) unpacked();
    if (asked && !tactics_.empty() && tactics_.back().conditions.empty()) return;
    packed();
  }

  /// The only tactic of a GEMM with a fixed summation order; nothing if others may be timed.
  std::optional<GemmTactic> tactic_of_one_order() const {
    const auto takes = [&](const std::optional<GemmProgram>& kernel) {
      return kernel && kernels_.has_one_order(*kernel) && takes_all_sizes(*kernel);
    };
    if (takes(with_prologue_)) return prologue_tactic();
    if (takes(whole_) && !product_.reduces()) return whole_tactic();
    if (takes(alone_)) return alone_tactic();
    return std::nullopt;
  }

  /// Packed weights have no other reader.
  void packed() {
    if (with_prologue_) add(prologue_tactic());
    add(whole_ ? whole_tactic() : alone_tactic());
  }

  /// Ends with a kernel of ours: the library may be missing, or accept some sizes only.
  void own_last() {
    const bool has_library = product_.library_refusal().empty();
    if (requested_ == "library" && has_library && !product_.is_conv())
      return add(library_tactic("library"));
    GemmTactic last = last_tactic();
    // A kernel without limits would be timed twice.
    const auto try_before = [&](GemmTactic tactic) {
      tactic = limited(std::move(tactic));
      if (tactic.name != last.name || !tactic.conditions.empty()) add(std::move(tactic));
    };
    if (whole_) try_before(whole_tactic());
    if (groups_) try_before(warpgroups_tactic());
    if (alone_) try_before(alone_tactic());
    if (warpgroups_alone_) try_before(warpgroups_alone_tactic());
    if (has_library) {
      GemmTactic library = library_tactic(product_.is_conv() ? "cudnn" : "library");
      library.conditions = product_.library_conditions();
      add(std::move(library));
    } else {
      last.name += "; no library: " + product_.library_refusal();
    }
    if (!whole_) last.name += "; no kernel on tensor cores: " + refusal_;
    add(std::move(last));
  }

  /// One kernel cannot compute norms of many rows.
  GemmTactic last_tactic() const {
    if (whole_ && !product_.reduces() && takes_all_sizes(*whole_)) return whole_tactic();
    if (alone_ && takes_all_sizes(*alone_)) return alone_tactic();
    if (auto all = product_.loops(true)) return {"loops", {}, {}, std::move(all), false};
    return {"loops, then the epilogue", {}, {}, product_.loops(false), true};
  }

  const GemmStep& product_;
  const std::string& requested_;
  const GemmKernelQueries& kernels_;
  std::string refusal_, prologue_refusal_;
  bool packs_elements_ = false;  // 16-bit weights, only for kernels of few rows
  std::optional<GemmProgram> with_prologue_, whole_, alone_, groups_, warpgroups_alone_;
  std::vector<GemmTactic> tactics_;
};

}  // namespace

std::vector<GemmTactic> gemm_tactics(const GemmStep& product, const std::string& requested,
                                     const GemmKernelQueries& kernels) {
  return TacticList(product, requested, kernels).run();
}

bool is_schedule(const std::string& requested) {
  return is_warpgroup_schedule(requested) || requested.starts_with("warp_tile ") ||
         is_small_m_schedule(requested);
}

bool is_warpgroup_schedule(const std::string& requested) {
  return requested.starts_with("tma ") || requested.starts_with("pingpong ") ||
         requested.starts_with("mixed_input ") || requested.starts_with("w4a8 ");
}

std::optional<std::string> tuning_tactic(const std::string& name, std::size_t part) {
  if (name.find("dequantized weights, warp-specialized") != name.npos) return std::nullopt;
  if (part > 0) return "library";
  if (name.starts_with("gemm, then")) return "alone";
  if (name.starts_with("warp-specialized gemm, then")) return "warp-specialized alone";
  if (name.starts_with("gemm") || name.starts_with("warp-specialized")) return "gemm";
  return std::nullopt;
}

}  // namespace sinter::codegen
