// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/cubin.h"
#include "codegen/families/registry.h"
#include "codegen/targets/kernel_cache.h"

namespace sinter::codegen {
namespace {

plan::fb::WorkUnion& work_at(std::vector<StepT>& steps, const Place& place) {
  plan::fb::WorkUnion& work = steps[place.step].work;
  if (!place.part) return work;
  return work.AsTacticStep()->tactics[place.part->first]->parts[place.part->second]->work;
}

std::vector<std::string> sorted_once(std::vector<std::string> names) {
  ir::sort_unique(names);
  return names;
}

std::vector<std::byte> bytes_of(const KernelStepT& step) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::fb::KernelStep::Pack(builder, &step));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

bool same(const EmittedKernel& a, const EmittedKernel& b) {
  return a.source == b.source && bytes_of(a.step) == bytes_of(b.step) &&
         std::equal(a.more.begin(), a.more.end(), b.more.begin(), b.more.end(),
                    [](const auto& x, const auto& y) { return bytes_of(x) == bytes_of(y); });
}

const KernelStepT& launch(const EmittedKernel& kernel, std::size_t number) {
  return number == 0 ? kernel.step : kernel.more[number - 1];
}

/// Replaces the buffers `first` of `step` by `own`; buffers of sizes stay.
void use_buffers(KernelStepT& step, const std::vector<std::uint32_t>& first,
                 const std::vector<std::uint32_t>& own, const std::vector<std::uint32_t>& extents) {
  const auto replace = [&](std::uint32_t buffer) {
    if (std::ranges::find(extents, buffer) != extents.end()) return buffer;
    return own[static_cast<std::size_t>(std::ranges::find(first, buffer) - first.begin())];
  };
  const auto replace_all = [&](std::vector<KernelArg>& args) {
    for (auto& arg : args)
      if (arg.kind() == ArgKind::Buffer) arg = KernelArg(arg.kind(), replace(arg.index()));
  };
  replace_all(step.args);
  for (const auto& variant : step.variants) {
    replace_all(variant->args);
    for (const auto& map : variant->maps) map->buffer = replace(map->buffer);
  }
}

/// Merges launch `number` of different kernels: each variant is limited to the architectures of its
/// kernel.
KernelStepT merged(const std::vector<EmittedKernel>& kernels,
                   const std::vector<std::vector<std::uint32_t>>& architectures,
                   std::size_t number) {
  KernelStepT all = launch(kernels[0], number);
  if (kernels.size() == 1) return all;
  all.variants.clear();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const KernelStepT& one = launch(kernels[k], number);
    for (const auto& variant : one.variants) {
      auto own = std::make_unique<KernelVariantT>(*variant);
      own->architectures = architectures[k];
      if (k > 0) own->args = one.args;
      all.variants.push_back(std::move(own));
    }
  }
  return all;
}

}  // namespace

class KernelTable::Impl {
 public:
  Impl(const CompileOptions& options, ExprTable& exprs, const PlanBuffers& buffers,
       std::vector<const DeviceModel*> devices)
      : options_(options), exprs_(exprs), buffers_(buffers), devices_(std::move(devices)) {
    if (!options.schedule.empty()) check_schedule(options.schedule);
  }

  void add(const TacticPart& part, const std::vector<std::string>& origins,
           const std::vector<std::uint32_t>& extents, NodePlace node, const Place& place) {
    std::vector<std::uint32_t> buffers = part.program->buffers();
    std::string signature = part.program->signature(exprs_);
    for (const std::uint32_t buffer : buffers)
      signature += fmt::format(" {}@{}", to_string(buffers_.type(buffer)),
                               std::ranges::find(buffers, buffer) - buffers.begin());
    for (const std::uint32_t extent : extents) signature += fmt::format(" size {}", extent);
    signature += ranges_of(signature);
    const auto [at, added] = by_signature_.emplace(std::move(signature), groups_.size());
    if (added)
      groups_.push_back({part.kernel,
                         at->first,
                         part.program,
                         part.tuned_by,
                         extents,
                         exprs_.ranges(),
                         {},
                         {},
                         {},
                         {}});
    Group& group = groups_[at->second];
    group.nodes.push_back(node);
    group.places.push_back(place);
    group.buffers.push_back(std::move(buffers));
    group.origins.insert(group.origins.end(), origins.begin(), origins.end());
  }

  void compile(std::vector<StepT>& steps, CompiledPlan& result) {
    std::vector<Written> written;
    const Ranges all = exprs_.ranges();
    for (const Group& group : groups_) {
      if (options_.checkpoint) options_.checkpoint();
      exprs_.set_ranges(group.ranges);
      with_context(fmt::format("generating kernel '{}'", group.name), [&] {
        const std::string key = key_of(group);
        Written kernels = write(group, key);
        if (auto known = info(group, key, steps[group.places[0].step], kernels.kernels[0].choices))
          result.kernels.push_back(std::move(*known));
        set_work(group, kernels, written.size() * devices_.size(), steps);
        written.push_back(std::move(kernels));
      });
      if (options_.edit_source)
        for (EmittedKernel& kernel : written.back().kernels)
          options_.edit_source(group.name, kernel.source);
    }
    exprs_.set_ranges(all);
    result.stats.kernels = groups_.size();
    if (!groups_.empty()) compile_texts(written, result);
  }

 private:
  /// Uses of programs with one signature, on buffers of equal types.
  struct Group {
    std::string name;                              // of its first use
    std::string signature;                         // everything that schedules depend on, except
                                                   // options
    std::shared_ptr<const KernelProgram> program;  // on the buffers of the first use
    std::optional<std::string> tuned_by;           // from the first use
    std::vector<std::uint32_t> extents;            // buffers of sizes
    Ranges ranges;                                 // of the first use's entry point
    std::vector<NodePlace> nodes;                  // nodes whose steps use it, the first use's
                                                   // first
    std::vector<Place> places;
    std::vector<std::vector<std::uint32_t>> buffers;  // plan buffers, for each of places
    std::vector<std::string> origins;
  };
  /// A group's texts and launches; architectures with equal texts share them.
  struct Written {
    std::vector<EmittedKernel> kernels;  // different ones
    std::vector<std::size_t> kernel_of;  // of each architecture
  };

  /// The ranges of the symbols in a text. Entry points have their own ranges; texts without such
  /// symbols are shared among them.
  std::string ranges_of(const std::string& text) const {
    std::string ranges;
    for (const auto& [symbol, range] : exprs_.ranges())
      if (text.find(symbol) != text.npos)
        ranges += fmt::format(" {}={}..{}", symbol, range.min, range.max);
    return ranges;
  }

  Written write(const Group& group, const std::string& key) {
    Written written;
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      const auto known = std::ranges::find(devices_, devices_[a]) - devices_.begin();
      if (static_cast<std::size_t>(known) < a) {
        written.kernel_of.push_back(written.kernel_of[static_cast<std::size_t>(known)]);
        continue;
      }
      KernelRequest own = request(group, key);
      own.device = devices_[a];
      own.requested.clusters = devices_[a]->has_clusters();
      EmittedKernel kernel = group.program->emit(std::move(own), exprs_);
      const auto equal = std::ranges::find_if(
          written.kernels, [&](const EmittedKernel& other) { return same(other, kernel); });
      written.kernel_of.push_back(static_cast<std::size_t>(equal - written.kernels.begin()));
      if (equal == written.kernels.end()) written.kernels.push_back(std::move(kernel));
    }
    return written;
  }

  KernelRequest request(const Group& group, const std::string& key) const {
    KernelRequest request;
    request.name = group.name;
    request.origins = sorted_once(group.origins);
    for (const std::uint32_t buffer : group.buffers[0])
      request.buffer_types.push_back(buffers_.type(buffer));
    // A kernel that reads sizes from memory would have to wait for them first.
    request.programmatic_launch = options_.programmatic_launch && group.extents.empty();
    request.precise = options_.precise_math;
    request.given = given_buffers(group);
    const auto chosen = options_.schedules.find(key);
    request.requested.chosen = chosen == options_.schedules.end() ? nullptr : &chosen->second;
    request.requested.list = options_.list_candidates;
    return request;
  }

  std::string key_of(const Group& group) const {
    std::string bounds;
    for (const auto& [symbol, range] : exprs_.ranges())
      bounds += fmt::format("{}={}..{} ", symbol, range.min, range.max);
    // Uses the content hash of the kernel cache.
    return KernelCache::key(
        group.signature, bounds,
        fmt::format("{} {}", options_.programmatic_launch, options_.precise_math), 0, "");
  }

  /// Buffers of the group's first use that no step writes, in any of its uses.
  std::set<std::uint32_t> given_buffers(const Group& group) const {
    std::set<std::uint32_t> given;
    for (std::size_t b = 0; b < group.buffers[0].size(); ++b)
      if (std::ranges::all_of(group.buffers,
                              [&](const auto& buffers) { return buffers_.is_given(buffers[b]); }))
        given.insert(group.buffers[0][b]);
    return given;
  }

  /// Sets the kernels of the group's steps; `module` is the index of their first module.
  void set_work(const Group& group, const Written& written, std::size_t module,
                std::vector<StepT>& steps) const {
    std::vector<std::vector<std::uint32_t>> architectures(written.kernels.size());
    for (std::size_t a = 0; a < written.kernel_of.size(); ++a)
      architectures[written.kernel_of[a]].push_back(static_cast<std::uint32_t>(a));
    for (std::size_t k = 0; k <= written.kernels[0].more.size(); ++k) {
      const KernelStepT step = merged(written.kernels, architectures, k);
      for (const auto& variant : step.variants)
        variant->module_ = static_cast<std::uint32_t>(module);
      for (std::size_t s = 0; s < group.places.size(); ++s) {
        KernelStepT work = step;
        use_buffers(work, group.buffers[0], group.buffers[s], group.extents);
        Place place = group.places[s];
        if (k > 0) place.part->second += k;
        work_at(steps, place).Set(std::move(work));
      }
    }
  }

  /// Facts about a group's kernel, first used in `step`. Nothing if it has no choice of schedules,
  /// or cannot be compiled without the step's other tactics.
  std::optional<KernelInfo> info(const Group& group, const std::string& key, const StepT& step,
                                 std::vector<VariantChoice>& choices) const {
    if (choices.empty() || !group.tuned_by) return std::nullopt;
    KernelInfo info;
    info.name = group.name;
    info.key = key;
    info.entry = group.nodes.front().entry;
    info.node = group.nodes.front().node;
    info.uses = group.places.size();
    info.tactic = *group.tuned_by;
    info.bytes = exprs_.dim(step.bytes_read) + exprs_.dim(step.bytes_written);
    info.flops = exprs_.dim(step.flops);
    for (VariantChoice& choice : choices) {
      VariantInfo variant{{}, std::move(choice.candidates), std::move(choice.refused)};
      for (const Condition& condition : choice.conditions)
        variant.conditions.push_back({exprs_.dim(condition.expression()),
                                      static_cast<std::int64_t>(condition.divisor()),
                                      condition.max()});
      info.variants.push_back(std::move(variant));
    }
    return info;
  }

  void compile_texts(const std::vector<Written>& written, CompiledPlan& result) const {
    const std::size_t count = written.size() * devices_.size();  // by group, then by architecture
    const auto kernel_at = [&](std::size_t i) -> const EmittedKernel& {
      const Written& kernels = written[i / devices_.size()];
      return kernels.kernels[kernels.kernel_of[i % devices_.size()]];
    };
    const auto architecture_at = [&](std::size_t i) {
      return options_.architectures[i % devices_.size()];
    };
    std::vector<KernelText> texts;
    for (std::size_t i = 0; i < count; ++i)
      if (kernel_at(i).cubins.empty()) texts.push_back({&kernel_at(i).source, architecture_at(i)});
    KernelCompileStats stats;
    std::vector<CompiledKernel> made;
    if (!texts.empty())
      made = options_.target->compile(
          texts, {options_.threads, options_.cache_dir, options_.progress}, stats);
    std::vector<CompiledKernel> compiled;
    std::vector<RefusedKernel> refused;
    for (std::size_t i = 0, next = 0; i < count; ++i) {
      const Group& group = groups_[i / devices_.size()];
      const EmittedKernel& kernel = kernel_at(i);
      const std::string architecture = architecture_at(i);
      compiled.push_back(kernel.cubins.empty() ? std::move(made[next++]) : CompiledKernel());
      if (!kernel.custom_operator.empty())
        take_custom(kernel, architecture, sorted_once(group.origins), compiled[i]);
      // Reports a kernel once, for its first architecture.
      if (compiled[i].refusal && (refused.empty() || refused.back().name != group.name))
        refused.push_back({group.name, architecture, sorted_once(group.origins), group.nodes,
                           compiled[i].refusal->log, compiled[i].refusal->reproducer});
    }
    if (!refused.empty()) throw KernelsRefused(std::move(refused));
    result.stats.cache_hits = stats.cache_hits;
    result.stats.nvrtc_seconds = stats.seconds;
    result.parts.meta.cuda_version = static_cast<std::uint32_t>(stats.version);
    add_modules(written, std::move(compiled), result.parts);
  }

  /// Checks code that a user supplied and sets `compiled` to precompiled code. Errors in it are not
  /// defects of Sinter.
  static void take_custom(const EmittedKernel& kernel, const std::string& architecture,
                          const std::vector<std::string>& origins, CompiledKernel& compiled) {
    const auto fail = [&](const std::string& why) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("for {}, the {} of operator '{}' ({}) {}", architecture,
                              kernel.cubins.empty() ? "CUDA text" : "code", kernel.custom_operator,
                              fmt::join(origins, ", "), why));
    };
    if (compiled.refusal) fail(fmt::format("does not compile:\n{}", compiled.refusal->log));
    if (!kernel.cubins.empty()) {
      const auto* cubin = choose_cubin(kernel.cubins, architecture);
      std::vector<std::string> known;
      for (const auto& [name, bytes] : kernel.cubins) known.push_back(name);
      if (cubin == nullptr)
        fail(
            fmt::format("is missing: there are cubins for {}; add one for it, or compile the model "
                        "for these alone (--target=cuda:{})",
                        fmt::join(known, ", "), fmt::join(known, ",")));
      compiled.code = *cubin;
    }
    try {
      check_kernel(compiled.code, architecture, kernel.step);
      for (const plan::fb::KernelStepT& step : kernel.more)
        check_kernel(compiled.code, architecture, step);
    } catch (const Error& error) {
      fail(fmt::format("cannot be launched: {}", error.what()));
    }
  }

  /// Adds text and code to the plan, ordered by group, then by architecture.
  void add_modules(const std::vector<Written>& written, std::vector<CompiledKernel> compiled,
                   plan::PlanParts& parts) const {
    std::uint64_t code_end = 0, source_end = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> sources;  // offset, bytes
      for (const EmittedKernel& kernel : written[g].kernels) {
        const auto source = std::make_shared<const std::string>(kernel.source);
        parts.sources.push_back(
            {source_end, std::as_bytes(std::span(source->data(), source->size())), source});
        sources.emplace_back(source_end, source->size());
        source_end += source->size();
      }
      for (std::size_t a = 0; a < devices_.size(); ++a) {
        const auto code = std::make_shared<const std::vector<std::byte>>(
            std::move(compiled[g * devices_.size() + a].code));
        constexpr std::uint64_t kCodeAlignment = 64;
        code_end = (code_end + kCodeAlignment - 1) / kCodeAlignment * kCodeAlignment;
        auto module = std::make_unique<plan::fb::ModuleT>();
        module->target = options_.architectures[a];
        module->offset = code_end;
        module->size = code->size();
        std::tie(module->source_offset, module->source_size) = sources[written[g].kernel_of[a]];
        module->name = groups_[g].name;
        parts.modules.push_back({code_end, *code, code});
        parts.meta.modules.push_back(std::move(module));
        code_end += code->size();
      }
    }
  }

  const CompileOptions& options_;
  ExprTable& exprs_;
  const PlanBuffers& buffers_;
  std::vector<const DeviceModel*> devices_;
  std::vector<Group> groups_;
  std::map<std::string, std::size_t> by_signature_;
};

KernelTable::KernelTable(const CompileOptions& options, ExprTable& exprs,
                         const PlanBuffers& buffers, std::vector<const DeviceModel*> devices)
    : impl_(std::make_unique<Impl>(options, exprs, buffers, std::move(devices))) {}
KernelTable::~KernelTable() = default;

void KernelTable::add(const TacticPart& part, const std::vector<std::string>& origins,
                      const std::vector<std::uint32_t>& extents, NodePlace node,
                      const Place& place) {
  impl_->add(part, origins, extents, node, place);
}

void KernelTable::compile(std::vector<StepT>& steps, CompiledPlan& result) {
  impl_->compile(steps, result);
}

}  // namespace sinter::codegen
