// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_tactics.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <sinter/error.h>

#include "codegen/families/gemm/gemm_schedule.h"

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

/// How CompileOptions::gemm spells the requests that are no schedule.
constexpr std::pair<GemmRequest::Kind, std::string_view> kWords[] = {
    {GemmRequest::Kind::kAny, ""},
    {GemmRequest::Kind::kLibrary, "library"},
    {GemmRequest::Kind::kDequantized, "dequantized"},
    {GemmRequest::Kind::kAlone, "alone"},
    {GemmRequest::Kind::kWarpSpecialized, "warp-specialized"},
    {GemmRequest::Kind::kWarpSpecializedAlone, "warp-specialized alone"},
};

std::string_view word_of(GemmRequest::Kind kind) {
  return std::ranges::find(kWords, kind, &std::pair<GemmRequest::Kind, std::string_view>::first)
      ->second;
}

std::string_view word_of(GemmTacticKind kind) {
  switch (kind) {
    case GemmTacticKind::kGemm: return "gemm";
    case GemmTacticKind::kWarpSpecialized: return "warp-specialized gemm";
    case GemmTacticKind::kLibrary: return "library";
    case GemmTacticKind::kCudnn: return "cudnn";
    case GemmTacticKind::kLoops: return "loops";
  }
  return "";
}

class TacticList {
 public:
  TacticList(const GemmStep& product, const GemmRequest& requested,
             const GemmKernelQueries& kernels)
      : product_(product), requested_(requested), kernels_(kernels) {
    packs_elements_ = (asks(Kind::kAny) || requested.is_small_m_schedule()) && !product.is_conv() &&
                      !is_quantized() && !product.is_eight_bit() && !product.is_grouped();
    find_kernels();
    if (!packs_elements_ || whole_ || with_prologue_ || (alone_ && product.reduces())) return;
    packs_elements_ = false;
    find_kernels();
  }

  std::vector<GemmTactic> run() {
    if (!asks(Kind::kAny) && !asks_unpacked() &&
        (with_prologue_ || whole_ || alone_ || groups_ || warpgroups_alone_)) {
      if (with_prologue_) add(kernel_tactic(with_prologue_));
      if (whole_) add(kernel_tactic(whole_));
      if (alone_) add(alone_tactic(alone_));
      if (groups_) add(kernel_tactic(groups_));
      if (warpgroups_alone_) add(alone_tactic(warpgroups_alone_));
    } else if (product_.is_grouped()) {
      grouped();
    } else if (const auto only = tactic_of_one_order()) {
      add(*only);
    } else if (product_.is_conv() || product_.is_eight_bit()) {
      own_last();
    } else if (is_quantized()) {
      quantized();
    } else if (packs_elements_) {
      packed();
    } else {
      if (with_prologue_) add(limited(kernel_tactic(with_prologue_)));
      if (whole_) add(limited(kernel_tactic(whole_)));
      if (groups_) add(limited(kernel_tactic(groups_)));
      if (alone_) add(limited(alone_tactic(alone_)));
      if (warpgroups_alone_) add(limited(alone_tactic(warpgroups_alone_)));
      GemmTactic library = library_tactic();
      if (!whole_) library.refusals = "; no kernel of our own: " + refusal_;
      add(std::move(library));
    }
    return std::move(tactics_);
  }

 private:
  using Kind = GemmRequest::Kind;

  bool asks(Kind kind) const { return requested_.is(kind); }
  /// Quantized weights as floats, for the library or for warpgroups.
  bool asks_unpacked() const { return asks(Kind::kDequantized) || asks(Kind::kLibrary); }

  void find_kernels() {
    const bool any = asks(Kind::kAny), by_warpgroups = requested_.is_warpgroup_schedule();
    refusal_ = any ? "" : "the compiler was asked for '" + requested_.to_string() + "'";
    std::string ignored;
    if (any || (is_quantized() && asks_unpacked()) || (asks(Kind::kSchedule) && !by_warpgroups)) {
      whole_ = kernel(true, false, refusal_);
      if (product_.prologue() && (any || product_.is_grouped() || requested_.is_small_m_schedule()))
        with_prologue_ = kernel(true, false, prologue_refusal_, true);
      if (!any && with_prologue_) whole_.reset();
    }
    // Warpgroup kernels read weights unpacked.
    if (!packs_elements_ && (any || asks(Kind::kWarpSpecialized) || by_warpgroups))
      groups_ = kernel(true, true, any ? ignored : refusal_);
    if (!product_.epilogue()) return;
    const bool wants_alone = !whole_ || product_.reduces() || product_.is_grouped();
    if (asks(Kind::kAlone) || ((any || is_quantized()) && wants_alone))
      alone_ = kernel(false, false, ignored);
    if (!packs_elements_ &&
        (asks(Kind::kWarpSpecializedAlone) || (any && (!groups_ || product_.reduces()))))
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
    if (!kernel || (by_warpgroups && kernel->combined)) return std::nullopt;
    kernel->by_warpgroups = by_warpgroups;
    return kernels_.accept(std::move(kernel), refusal);
  }

  void add(GemmTactic tactic) {
    if (product_.prologue() && !tactic.kernel_has_prologue()) {
      tactic.prologue_first = true;
      if (tactic.conditions.empty() && !prologue_refusal_.empty())
        tactic.refusals += "; not in one kernel: " + prologue_refusal_;
    }
    tactics_.push_back(std::move(tactic));
  }

  static GemmTactic kernel_tactic(std::optional<GemmProgram> kernel, bool then_epilogue = false) {
    return {
        .kind = kernel->by_warpgroups ? GemmTacticKind::kWarpSpecialized : GemmTacticKind::kGemm,
        .then_epilogue = then_epilogue,
        .kernel = std::move(kernel)};
  }
  static GemmTactic alone_tactic(std::optional<GemmProgram> kernel) {
    return kernel_tactic(std::move(kernel), true);
  }
  GemmTactic library_tactic(GemmTacticKind kind = GemmTacticKind::kLibrary) const {
    return {.kind = kind, .then_epilogue = product_.epilogue().has_value()};
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
    if (library_first) add_unpacked(library_tactic());
    if (!asks(Kind::kLibrary)) {
      if (auto whole = by_warpgroups(true))
        add_unpacked(kernel_tactic(std::move(whole)));
      else if (auto alone = product_.epilogue() ? by_warpgroups(false) : std::nullopt)
        add_unpacked(alone_tactic(std::move(alone)));
    }
    if (!library_first) add_unpacked(library_tactic());
  }

  /// Quantized weights: the library has no such GEMM.
  void quantized() {
    if (!whole_ && !alone_) throw Error(ErrorCode::kUnsupported, "quantized weights: " + refusal_);
    if (groups_)
      add(limited(kernel_tactic(groups_)));
    else if (warpgroups_alone_)
      add(limited(alone_tactic(warpgroups_alone_)));
    if (asks(Kind::kAny) || asks_unpacked()) unpacked();
    if (asks_unpacked() && !tactics_.empty() && tactics_.back().conditions.empty()) return;
    packed();
  }

  /// Rows by groups: no library has such a matmul. The last kernel takes all sizes.
  void grouped() {
    if (!whole_ && !alone_) throw Error(ErrorCode::kUnsupported, "a grouped matmul: " + refusal_);
    const auto add_with = [&](GemmTactic tactic, std::vector<Condition> conditions) {
      tactic.conditions = std::move(conditions);
      add(std::move(tactic));
    };
    if (whole_ && whole_->combined && alone_) {
      add_with(kernel_tactic(whole_), kernels_.few_tokens(*whole_));
      whole_.reset();
    }
    if (const auto& few = with_prologue_ ? with_prologue_ : whole_)
      add_with(kernel_tactic(few), kernels_.few_of_groups(*few));
    else
      add_with(alone_tactic(alone_), kernels_.few_of_groups(*alone_));
    if (groups_)
      add(kernel_tactic(groups_));
    else if (warpgroups_alone_)
      add(alone_tactic(warpgroups_alone_));
    if (whole_ && alone_) add(alone_tactic(alone_));
    add(whole_ ? kernel_tactic(whole_) : alone_tactic(alone_));
  }

  /// The only tactic of a GEMM with a fixed summation order; nothing if others may be timed.
  std::optional<GemmTactic> tactic_of_one_order() const {
    const auto takes = [&](const std::optional<GemmProgram>& kernel) {
      return kernel && kernels_.has_one_order(*kernel) && takes_all_sizes(*kernel);
    };
    if (takes(with_prologue_)) return kernel_tactic(with_prologue_);
    if (takes(whole_) && !product_.reduces()) return kernel_tactic(whole_);
    if (takes(alone_)) return alone_tactic(alone_);
    return std::nullopt;
  }

  /// Packed weights have no other reader.
  void packed() {
    if (with_prologue_) add(kernel_tactic(with_prologue_));
    add(whole_ ? kernel_tactic(whole_) : alone_tactic(alone_));
  }

  /// Ends with a kernel of ours: the library may be missing, or accept some sizes only.
  void own_last() {
    const bool has_library = product_.library_refusal().empty();
    if (asks(Kind::kLibrary) && has_library && !product_.is_conv()) return add(library_tactic());
    GemmTactic last = last_tactic();
    // A kernel without limits would be timed twice.
    const auto try_before = [&](GemmTactic tactic) {
      tactic = limited(std::move(tactic));
      if (tactic.kind != last.kind || tactic.then_epilogue != last.then_epilogue ||
          !tactic.conditions.empty())
        add(std::move(tactic));
    };
    if (whole_) try_before(kernel_tactic(whole_));
    if (groups_) try_before(kernel_tactic(groups_));
    if (alone_) try_before(alone_tactic(alone_));
    if (warpgroups_alone_) try_before(alone_tactic(warpgroups_alone_));
    if (has_library) {
      GemmTactic library =
          library_tactic(product_.is_conv() ? GemmTacticKind::kCudnn : GemmTacticKind::kLibrary);
      library.conditions = product_.library_conditions();
      add(std::move(library));
    } else {
      last.refusals += "; no library: " + product_.library_refusal();
    }
    if (!whole_) last.refusals += "; no GEMM kernel: " + refusal_;
    add(std::move(last));
  }

  /// One kernel cannot compute norms of many rows.
  GemmTactic last_tactic() const {
    if (whole_ && !product_.reduces() && takes_all_sizes(*whole_)) return kernel_tactic(whole_);
    if (alone_ && takes_all_sizes(*alone_)) return alone_tactic(alone_);
    if (auto all = product_.loops(true))
      return {.kind = GemmTacticKind::kLoops, .loops = std::move(all)};
    return {.kind = GemmTacticKind::kLoops, .then_epilogue = true, .loops = product_.loops(false)};
  }

  const GemmStep& product_;
  const GemmRequest& requested_;
  const GemmKernelQueries& kernels_;
  std::string refusal_, prologue_refusal_;
  bool packs_elements_ = false;  // 16-bit weights, only for kernels of few rows
  std::optional<GemmProgram> with_prologue_, whole_, alone_, groups_, warpgroups_alone_;
  std::vector<GemmTactic> tactics_;
};

}  // namespace

GemmRequest::GemmRequest(const std::string& text) {
  for (const auto& [known, word] : kWords)
    if (text == word) {
      kind = known;
      return;
    }
  kernel = parse_gemm_schedule(text).first;
  kind = Kind::kSchedule;
  schedule = text;
}

std::string GemmRequest::to_string() const {
  return is(Kind::kSchedule) ? schedule : std::string(word_of(kind));
}

std::string GemmTactic::name() const {
  std::string text = prologue_first ? "prologue, then " : "";
  if (unpacking) text += "dequantized weights, ";
  text += word_of(kind);
  if (kernel_has_prologue()) text += " with its prologue";
  if (kernel && then_epilogue) text += ", then its epilogue";
  if (loops && then_epilogue) text += ", then the epilogue";
  return text + refusals;
}

std::vector<GemmTactic> gemm_tactics(const GemmStep& product, const GemmRequest& requested,
                                     const GemmKernelQueries& kernels) {
  return TacticList(product, requested, kernels).run();
}

std::optional<std::string> tuning_request(const GemmTactic& tactic, std::size_t part) {
  const bool by_warpgroups = tactic.kind == GemmTacticKind::kWarpSpecialized;
  if (tactic.unpacking && by_warpgroups) return std::nullopt;
  if (part > 0) return std::string(word_of(GemmRequest::Kind::kLibrary));
  if (tactic.prologue_first || tactic.unpacking || !tactic.kernel) return std::nullopt;
  if (!tactic.then_epilogue) return std::string(word_of(GemmTacticKind::kGemm));
  return std::string(word_of(by_warpgroups ? GemmRequest::Kind::kWarpSpecializedAlone
                                           : GemmRequest::Kind::kAlone));
}

}  // namespace sinter::codegen
