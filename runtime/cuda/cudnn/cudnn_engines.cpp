// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn/cudnn_engines.h"

#include <algorithm>
#include <utility>

#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

// The same number as for cuBLASLt; heuristics order them well enough: see README.md.
constexpr std::size_t kMostCandidates = 8;
// Each needs a run of NVRTC: 0.2 s, or 1 s on a slow machine.
constexpr std::size_t kMostCompiled = 3;
constexpr std::int64_t kMostProposals = 16;  // for each heuristic mode
constexpr std::int64_t kMostKnobs = CUDNN_KNOB_TYPE_COUNTS;

struct Notes {
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  explicit Notes(const CudnnDescriptor& engine)
      : numerical(engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                          CUDNN_TYPE_NUMERICAL_NOTE,
                                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT)),
        behavior(engine.get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                                        CUDNN_TYPE_BEHAVIOR_NOTE,
                                                        CUDNN_BEHAVIOR_NOTE_TYPE_COUNT)) {}
  bool has(cudnnBackendNumericalNote_t note) const {
    return std::ranges::find(numerical, note) != numerical.end();
  }
  bool is_compiled_now() const {
    return std::ranges::find(behavior, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behavior.end();
  }
};

/// Why an engine's arithmetic violates a plan's guarantees; null if it does not.
const char* numerical_refusal(const Notes& notes, const ConvProblem& problem) {
  if (notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "is not deterministic";
  if (notes.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
    return "accumulates in less than float32";
  const bool tf32 = problem.dtype == DType::kFloat32 && problem.math == fb::MathMode::Tf32;
  if (notes.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) && !tf32) return "rounds its operands";
  // Tensor cores round float32 operands to tf32; for float64 and 16-bit types they are exact.
  if (notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && problem.dtype == DType::kFloat32 && !tf32)
    return "takes float32 as tf32";
  // Transformed values are larger than the operands, so they lose digits in 16 bits; with large
  // tiles float32 sums do, too.
  if (notes.has(CUDNN_NUMERICAL_NOTE_FFT)) return "transforms its operands by FFT";
  if (notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD) &&
      (size_of(problem.dtype) < 4 || notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13)))
    return "transforms its operands by Winograd's method";
  return nullptr;
}

CudnnDescriptor make_engine(const CudnnTarget& target, const ConvGraph& graph,
                            std::int64_t number) {
  CudnnDescriptor engine(target.library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.descriptor())
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number);
  if (target.device)
    engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target.device);
  engine.finalize();
  return engine;
}

CudnnDescriptor make_config(const CudnnTarget& target, const CudnnDescriptor& engine,
                            const EngineChoice& choice) {
  std::vector<CudnnDescriptor> knobs;
  for (const auto& [type, value] : choice.knobs) {
    const auto knob = static_cast<cudnnBackendKnobType_t>(type);
    CudnnDescriptor& made =
        knobs.emplace_back(target.library, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    made.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .finalize();
  }
  CudnnDescriptor config(target.library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty())
    config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, std::span<const CudnnDescriptor>(knobs));
  config.finalize();
  return config;
}

CudnnDescriptor make_plan(const CudnnTarget& target, const CudnnDescriptor& config) {
  CudnnDescriptor plan(target.library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  target.set_on(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize();
  return plan;
}

CudnnDescriptor accepted_engine(const CudnnTarget& target, const ConvGraph& graph,
                                const ConvProblem& problem, std::int64_t number) {
  CudnnDescriptor engine = make_engine(target, graph, number);
  if (const char* refusal = numerical_refusal(Notes(engine), problem))
    throw unsupported_error("engine {} {}", number, refusal);
  return engine;
}

EngineChoice read_config(const CudnnDescriptor& config, std::int64_t engine) {
  EngineChoice choice{engine, {}};
  for (const CudnnDescriptor& knob : config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMostKnobs)) {
    const auto type =
        knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1);
    if (!type.empty())
      choice.knobs.emplace_back(type[0], knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return choice;
}

/// Calls `body`; adds errors of unsupported features to `why`.
template <typename Body>
void attempt(std::vector<std::string>& why, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    if (std::ranges::find(why, error.what()) == why.end()) why.push_back(error.what());
  }
}

class Search {
 public:
  Search(const CudnnTarget& target, const ConvProblem& problem, std::vector<std::string>& why)
      : target_(target), problem_(problem), graph_(target, problem), why_(why) {}

  std::vector<EngineChoice> run() && {
    for (const cudnnBackendHeurMode_t mode :
         {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK})
      if (!is_full()) attempt(why_, [&] { ask(mode); });
    if (!is_full()) attempt(why_, [&] { walk(); });
    return std::move(found_);
  }

 private:
  bool is_full() const { return found_.size() >= kMostCandidates; }

  void consider(const CudnnDescriptor& engine, const EngineChoice& choice) {
    if (is_full() || std::ranges::find(found_, choice) != found_.end()) return;
    const Notes notes(engine);
    if (const char* refusal = numerical_refusal(notes, problem_))
      throw unsupported_error("engine {} {}", choice.engine, refusal);
    if (notes.is_compiled_now() && ++compiled_ > kMostCompiled) return;
    found_.push_back(choice);
  }

  void ask(cudnnBackendHeurMode_t mode) {
    CudnnDescriptor heuristic(target_.library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.descriptor())
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (target_.device)
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &target_.device);
    heuristic.finalize();
    for (const CudnnDescriptor& config : heuristic.get(
             CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostProposals))
      attempt(why_, [&] {
        const auto engines =
            config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
        if (engines.empty()) return;
        const std::int64_t number = engines[0].get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
        consider(engines[0], read_config(config, number));
      });
  }

  void walk() {
    const std::int64_t count =
        graph_.descriptor().get(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
    for (std::int64_t number = 0; number < count && !is_full(); ++number) {
      // A heuristic has proposed this engine with its own knobs.
      if (std::ranges::any_of(found_,
                              [&](const EngineChoice& known) { return known.engine == number; }))
        continue;
      attempt(why_, [&] {
        const EngineChoice choice{number, {}};
        const CudnnDescriptor engine = make_engine(target_, graph_, number);
        // Checking a runtime-compiled engine means compiling it; heuristics propose the suitable
        // ones.
        if (Notes(engine).is_compiled_now()) return;
        make_plan(target_, make_config(target_, engine, choice));
        consider(engine, choice);
      });
    }
  }

  const CudnnTarget& target_;
  const ConvProblem& problem_;
  ConvGraph graph_;
  std::vector<std::string>& why_;
  std::vector<EngineChoice> found_;
  std::size_t compiled_ = 0;
};

}  // namespace

std::string EngineChoice::text() const {
  std::string settings;
  for (const auto& [type, value] : knobs)
    settings += fmt::format("{}{}={}", settings.empty() ? "" : ", ", type, value);
  return settings.empty() ? fmt::format("engine {}", engine)
                          : fmt::format("engine {} ({})", engine, settings);
}

AlgorithmBlob EngineChoice::blob() const {
  AlgorithmBlob words{static_cast<std::uint64_t>(engine)};
  for (const auto& [type, value] : knobs) {
    words.push_back(static_cast<std::uint64_t>(type));
    words.push_back(static_cast<std::uint64_t>(value));
  }
  return words;
}

std::optional<EngineChoice> EngineChoice::from(const AlgorithmBlob& blob) {
  if (blob.size() % 2 != 1) return std::nullopt;
  EngineChoice choice{static_cast<std::int64_t>(blob[0]), {}};
  for (std::size_t i = 1; i < blob.size(); i += 2)
    choice.knobs.emplace_back(static_cast<std::int64_t>(blob[i]),
                              static_cast<std::int64_t>(blob[i + 1]));
  return choice;
}

ConvPlan::ConvPlan(const CudnnTarget& target, const ConvProblem& problem,
                   const EngineChoice& choice)
    : graph_(target, problem),
      choice_(choice),
      engine_(accepted_engine(target, graph_, problem, choice.engine)),
      config_(make_config(target, engine_, choice)),
      plan_(make_plan(target, config_)),
      workspace_bytes_(static_cast<std::uint64_t>(
          std::max<std::int64_t>(plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE), 0))) {}

std::vector<EngineChoice> conv_candidates(const CudnnTarget& target, const ConvProblem& problem,
                                          std::vector<std::string>& why) {
  return Search(target, problem, why).run();
}

}  // namespace sinter::runtime
