// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/formats/formats.h"

#include <algorithm>
#include <cstring>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>
#include <sinter/version.h>

#include "runtime/format_error.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/formats/operator_steps.h"

namespace sinter::plan {
namespace {

std::uint32_t constant(fb::PlanT& plan, std::int64_t value) {
  plan.expressions.emplace_back(fb::ExprOp::Constant, 0, 0, value);
  return static_cast<std::uint32_t>(plan.expressions.size() - 1);
}

/// softcap * tanh(score / softcap) as a program of scores.
void cap_scores(fb::PlanT& plan, fb::AttentionStepT& step) {
  if (step.softcap == 0) return;
  auto program = std::make_unique<fb::LoopProgramT>();
  program->extents = step.batch;
  program->extents.insert(program->extents.end(), {step.rows, step.keys});
  program->buffers = {kScoreBuffer};
  const std::uint32_t zero = constant(plan, 0);
  auto access = std::make_unique<fb::AccessT>();
  access->offset = zero;
  access->strides.assign(program->extents.size(), zero);
  program->accesses.push_back(std::move(access));
  const auto add = [&](fb::InstrKind kind, ScalarOp op, std::vector<std::uint32_t> args,
                       double number = 0) {
    auto instr = std::make_unique<fb::InstrT>();
    instr->kind = kind;
    instr->op = static_cast<std::uint8_t>(op);
    instr->dtype = static_cast<std::uint8_t>(DType::kFloat32);
    instr->args = std::move(args);
    instr->constant_float = number;
    program->instrs.push_back(std::move(instr));
    return static_cast<std::uint32_t>(program->instrs.size() - 1);
  };
  const std::uint32_t score = add(fb::InstrKind::Load, {}, {});
  const std::uint32_t cap = add(fb::InstrKind::Constant, {}, {}, step.softcap);
  const std::uint32_t inner = add(fb::InstrKind::Op, ScalarOp::kDiv, {score, cap});
  const std::uint32_t bent = add(fb::InstrKind::Op, ScalarOp::kTanh, {inner});
  add(fb::InstrKind::Store, {}, {add(fb::InstrKind::Op, ScalarOp::kMul, {bent, cap})});
  step.scores = std::move(program);
  step.softcap = 0;
}

void cap_scores(fb::PlanT& plan) {
  for (const auto& step : plan.steps)
    if (auto* attention = step->work.AsAttentionStep()) cap_scores(plan, *attention);
}

void upgrade_to_10(fb::PlanT& plan) {
  cap_scores(plan);
  make_operator_steps(plan);
}

constexpr Format kFormats[] = {
    {10, upgrade_to_10},  // score programs of attention; one step kind for operators with kernels
    {11, nullptr},        // ranks, their parts of weights and states; 1: none
};
static_assert(std::ranges::size(kFormats) == kFormatVersion - kOldestFormatVersion);
static_assert(kFormats[0].version == kOldestFormatVersion + 1);
static_assert(std::ranges::rbegin(kFormats)->version == kFormatVersion);
static_assert(std::ranges::is_sorted(kFormats, {}, &Format::version));

/// Reads Plan's first field, which has the same place in every format.
struct Maker : private flatbuffers::Table {
  const flatbuffers::String* version() const {
    return GetPointer<const flatbuffers::String*>(fb::Plan::VT_COMPILER_VERSION);
  }
  bool Verify(flatbuffers::Verifier& verifier) const {
    return VerifyTableStart(verifier) &&
           VerifyOffsetRequired(verifier, fb::Plan::VT_COMPILER_VERSION) &&
           verifier.VerifyString(version()) && verifier.EndTable();
  }
};

bool is_version_text(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' || c == '+';
  });
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

void upgrade(fb::PlanT& plan, std::uint32_t version, std::span<const Format> steps) {
  for (const Format& step : steps)
    if (step.version > version && step.upgrade != nullptr) step.upgrade(plan);
}

std::string maker_of(std::span<const std::byte> file) {
  FileHeader header;
  if (file.size() < sizeof header) return {};
  std::memcpy(static_cast<void*>(&header), file.data(), sizeof header);
  const SectionEntry& entry = header.sections[0];
  if (entry.offset % kSectionAlignment != 0 || entry.offset > file.size() ||
      entry.size > file.size() - entry.offset || entry.size < 16 ||
      entry.size >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return {};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data() + entry.offset);
  flatbuffers::Verifier verifier(bytes, static_cast<std::size_t>(entry.size));
  if (!verifier.VerifyBuffer<Maker>(fb::PlanIdentifier())) return {};
  const std::string maker = flatbuffers::GetRoot<Maker>(bytes)->version()->str();
  return is_version_text(maker) ? maker : std::string();
}

void require_format(std::uint32_t version, std::span<const std::byte> file) {
  if (version >= kOldestFormatVersion && version <= kFormatVersion) return;
  const std::string maker = maker_of(file);
  const std::string by = maker.empty() ? "" : fmt::format(" and was made by Sinter {}", maker);
  const bool is_newer = version > kFormatVersion;
  const std::string way_out =
      !is_newer       ? "compile the model again ('sinter compile')"
      : maker.empty() ? "install a newer Sinter, or compile the model again with this one"
                      : fmt::format(
                            "install Sinter {} or newer, or compile the model again with "
                            "this one",
                            maker);
  const std::string other_way =
      is_newer || maker.empty() ? "" : fmt::format(", or run the plan with Sinter {}", maker);
  throw invalid_plan_error(fmt::format(
      "the plan has format version {}{}; this library, Sinter {}, reads versions {} to "
      "{}: {}{}",
      version, by, SINTER_VERSION, kOldestFormatVersion, kFormatVersion, way_out, other_way));
}

}  // namespace sinter::plan
