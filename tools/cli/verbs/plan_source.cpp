// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/verbs/plan_source.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <sinter/sinter.h>
#include <sys/stat.h>

#include "ir/text/shown.h"
#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/api.h"
#include "tools/compiler/build/target.h"
#include "tools/generate/gguf_texts.h"
#include "tools/source/file_hash.h"

namespace sinter::tools {
namespace fs = std::filesystem;

namespace {

/// What differs between builds of this compiler, of one version too.
std::string compiler_build() {
  Dl_info own{};
  struct stat status {};
  if (::dladdr(reinterpret_cast<const void*>(&compiler_build), &own) == 0)
    return std::string(version());
  // Of a program it is the name that it was called by, which may be found by PATH.
  const char* const file = own.dli_fname[0] == '/' ? own.dli_fname : "/proc/self/exe";
  if (::stat(file, &status) != 0) return std::string(version());
  return fmt::format("{} {} {}.{}", version(), status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

/// The options that are given, with the contents of the files that they name. Nothing if those
/// may name others.
std::optional<std::string> options_key(const BuildTexts& texts, const FileHashes& hashes) {
  std::string key;
  for (const OptionRow& row : option_rows()) {
    const bool is_of_work = row.group == OptionGroup::kResources;  // not of what is made
    if (row.flag.empty() || is_of_work || !texts.is_given(row.name())) continue;
    if (row.name() == "--op") return std::nullopt;
    std::vector<std::string> values = texts.list(row.name());
    if (!row.repeated) values.emplace_back(texts.text(row.name()));
    for (const std::string& value : values) {
      key += fmt::format("{}={}\n", row.name(), value);
      if (row.type.find("FILE") == std::string_view::npos) continue;
      key +=
          hashes.of(value.substr(row.type.starts_with("NAME=") ? value.find('=') + 1 : 0)) + "\n";
    }
  }
  return key;
}

/// Lines of a text.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Where a model's file lies; of one in the working directory its name does not say it.
fs::path folder_of(const std::string& model) { return fs::absolute(model).parent_path(); }

constexpr const char* kNoTokenizer = "no_tokenizer.txt";

/// The texts' files of a GGUF file, or why its tokenizer is not known.
void write_texts(const std::string& model, const std::string& folder) try {
  write_texts_of(*frontend::GgufFile::open(model), folder);
} catch (const Error& error) {
  if (error.code() != ErrorCode::kUnsupported) throw;
  files::write_file(folder + "/" + kNoTokenizer, error.what(), {.what = "a note"});
}

/// A folder that is removed with this.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "sinter_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw usage_error("'{}' cannot be made: {}", path_, std::strerror(errno));
  }
  ~TemporaryFolder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Compiles the graphs of a model, or finds their plans.
class PlanMaker {
 public:
  PlanMaker(const ModelTexts& texts, const ModelFiles& files, const LoadOptions& load,
            const PlanCache& cache, const Console& console)
      : texts_(texts), files_(files), load_(load), cache_(cache), console_(console) {}

  struct Made {
    Plan plan;
    std::string folder;                  // of the cache's entry; empty: in memory alone
    std::shared_ptr<const void> in_use;  // the entry
  };

  /// `model`: a file or folder; `sources`: what decides about it. `decoder`: file of the decoder,
  /// of an encoder.
  Made make(const std::string& model, const std::vector<std::string>& sources,
            const std::string& decoder = "") const {
    const FileHashes hashes(cache_.hashes());
    const auto options =
        cache_.problem().empty() ? options_key(texts_.build, hashes) : std::nullopt;
    if (!options) {
      CompileResult result = compile("", model, decoder);
      return {Plan::from_memory(result.plan, load_), "", nullptr};
    }
    std::string text = fmt::format(
        "plan 1\n{}\n{}\n{}", compiler_build(),
        resolve_target(std::string(texts_.build.text("--target"))).to_string(), *options);
    if (!decoder.empty()) text += "encoder\n";
    for (const std::string& file : sources)
      text += fmt::format("{} {}\n", fs::path(file).filename().string(), hashes.of(file));
    const std::string first = hash_of(text);
    const auto key_with = [&](const std::string& names) {
      std::string all = first;
      for (const std::string& name : lines_of(names))
        all += "\n" + hashes.of((folder_of(model) / name).lexically_normal().string());
      return hash_of(all);
    };
    // Which files of external data a model reads is known once it was imported.
    std::string key = first;
    try {
      key = key_with(cache_.read_note(first));
    } catch (const FileError&) {
      // One is missing: the compiler says which.
    }
    if (auto entry = cache_.find(key)) try {
        return loaded(std::move(*entry));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kInvalidPlan) throw;
        console_.note(fmt::format("the cache's plan is damaged, and made anew: {}", error.what()));
        cache_.discard(key);
      }
    const auto write = [&](const std::string& folder) {
      const CompileResult result = compile(folder + "/" + PlanCache::kPlan, model, decoder);
      if (files_.is_gguf) write_texts(model, folder);
      std::string names;
      // Of a folder all that is read is among its sources.
      std::error_code none;
      if (!fs::is_directory(model, none))
        for (const std::string& file : result.data_files)
          names += fs::relative(file, folder_of(model)).string() + "\n";
      cache_.write_note(first, names);
      return key_with(names);
    };
    PlanCache::Entry entry =
        cache_.get(key, write, [&](std::string_view line) { console_.note(line); });
    return loaded(std::move(entry));
  }

 private:
  Made loaded(PlanCache::Entry entry) const {
    Plan plan = Plan::load(entry.plan(), load_);
    std::string folder = entry.folder;
    return {std::move(plan), std::move(folder),
            std::make_shared<const PlanCache::Entry>(std::move(entry))};
  }

  /// `path`: as of compile_model.
  CompileResult compile(const std::string& path, const std::string& model,
                        const std::string& decoder) const {
    BuildTexts own = texts_.build;
    own.model = model;
    BuildRequest request(own, console_);
    const bool sees = !files_.embeddings.empty();
    if (!decoder.empty()) {
      if (!sees) request.options().decoder = decoder;
      request.options().features = files_.features;
    } else if (sees) {
      request.options().embeddings = files_.embeddings;
    }
    const std::string part = decoder.empty() || !files_.networks.empty() ? "" : "the encoder of ";
    console_.note(fmt::format("compiling {}{}", part, ir::shown(model)));
    // Whoever runs a text need not hear that the plan is one for texts.
    const auto say = std::move(request.options().monitor.on_diagnostic);
    request.options().monitor.on_diagnostic = [&say](const Diagnostic& diagnostic) {
      if (diagnostic.code != kPagedNote) say(diagnostic);
    };
    CompileResult result = at_boundary(
        request.options().monitor, OptionNames::kFlags,
        [&](Reporter& reporter) { return compile_model(request.options(), path, reporter); });
    console_.note(fmt::format(
        "{}{} was compiled for {} in {:.1f} s{}", part,
        ir::shown(fs::path(model).filename().string()), result.target,
        (result.import_ms + result.passes_ms + result.codegen_ms) / 1000,
        path.empty() ? ", in memory: there is no cache of plans, since " + cache_.problem() : ""));
    return result;
  }

  const ModelTexts& texts_;
  const ModelFiles& files_;
  const LoadOptions& load_;
  const PlanCache& cache_;
  const Console& console_;
};

/// Copies a file in blocks; the target appears when it is whole.
void copy_file(const std::string& from, const std::string& to, const char* what) {
  const files::InputFile input = files::open_input(from);
  if (!input.problem.empty())
    throw input.error(from, fmt::format("'{}' cannot be read: {}", from, input.problem));
  files::OutputFile output(to, {.what = what});
  std::vector<std::byte> block(std::size_t{4} << 20);
  for (std::size_t size = block.size(); size == block.size();) {
    size = files::read_some(input.descriptor, block, from);
    output.write(std::span(block).first(size));
  }
  output.commit();
}

/// --plan: the plan, and the files of its texts beside it.
void keep(const std::string& plan, const std::string& tokenizer, const std::string& to,
          const ModelFiles& files, const Console& console) {
  files::check_output(to, files.sources);
  const fs::path folder = fs::absolute(to).parent_path();
  std::vector<std::pair<std::string, std::string>> copies;
  std::error_code none;
  if (!tokenizer.empty())
    for (const std::string& name : text_file_names()) {
      const fs::path from = fs::path(tokenizer).replace_filename(name), target = folder / name;
      if (!fs::is_regular_file(from, none) || fs::equivalent(from, target, none)) continue;
      const FileHashes hashes("");
      if (!fs::exists(target, none))
        copies.emplace_back(from.string(), target.string());
      else if (hashes.of(from.string()) != hashes.of(target.string()))
        throw usage_error("--plan: '{}' is another model's: name a file in a folder of its own",
                          target.string());
    }
  copy_file(plan, to, "the plan");
  for (const auto& [from, target] : copies) copy_file(from, target, "a file of the model");
  console.note(
      fmt::format("the plan is in {}{}", to, copies.empty() ? "" : ", its tokenizer beside it"));
}

}  // namespace

void add_model_options(Command& verb, ModelTexts& texts, bool is_one) {
  {
    const OptionsUnder heading(verb, "Models that are no plans");
    if (is_one)
      verb.add_option("--plan FILE", texts.keep,
                      "Write the compiled plan here, too, and the model's tokenizer beside it");
    verb.add_option("--plan-cache FOLDER", texts.cache.folder,
                    "Where compiled plans are kept, or off (default: $SINTER_PLAN_CACHE, else "
                    "~/.cache/sinter/plans)");
    verb.add_option("--plan-cache-size BYTES", texts.cache_size,
                    "Most that is kept, as 20G; plans not used for longest go first "
                    "(default: $SINTER_PLAN_CACHE_SIZE, else 20G)");
    verb.add_option("--revision NAME", texts.hub.revision,
                    "Branch, tag or commit of a model of the hub (default: main)");
    verb.add_flag("--download", texts.hub.download,
                  "Get a model of the hub (org/name) by Python's huggingface_hub");
  }
  add_build_options(verb, texts.build, OptionVerbs::kNotCompare);
}

OpenModel open_model(const std::string& text, const ModelTexts& texts, const LoadOptions& load,
                     const Console& console, ModelUse use) {
  const ModelFiles files =
      find_model(text, use, texts.hub, [&](std::string_view line) { console.note(line); });
  if (!files.plan.empty()) {
    check_no_build_options(texts.build, files.plan);
    if (!texts.keep.empty()) throw usage_error("--plan: '{}' is a plan already", files.plan);
    std::optional<Plan> encoder;
    if (!files.encoder.empty()) encoder = Plan::load(files.encoder, load);
    return {files.name,         Plan::load(files.plan, load),
            std::move(encoder), files.tokenizer,
            files.folder,       nullptr};
  }
  if (!load.require_signature.empty())
    throw usage_error("--require-signature needs a plan, and '{}' is not one", text);
  PlanCacheOptions options = texts.cache;
  if (!texts.cache_size.empty())
    options.most_bytes =
        with_context("--plan-cache-size", [&] { return parse_bytes(texts.cache_size); });
  const PlanCache cache(options);
  if (!texts.keep.empty() && !cache.problem().empty())
    throw usage_error("--plan copies from the cache of plans, which there is not: {}",
                      cache.problem());
  const PlanMaker maker(texts, files, load, cache, console);
  using Uses = std::vector<std::shared_ptr<const void>>;
  auto uses = std::make_shared<Uses>();
  std::optional<Plan> encoder;
  std::string encoder_folder;
  if (!files.encoder.empty()) {
    std::vector<std::string> sources = files.sources;
    if (files.encoder != files.model) sources.insert(sources.begin(), files.encoder);
    if (!files.features.empty()) sources.push_back(files.features);
    auto made = maker.make(files.encoder, sources, files.model);
    uses->push_back(std::move(made.in_use));
    encoder_folder = std::move(made.folder);
    encoder = std::move(made.plan);
  }
  auto made = maker.make(files.model, files.sources, files.networks);
  uses->push_back(std::move(made.in_use));
  std::string tokenizer = files.tokenizer;
  if (files.is_gguf) {
    std::string folder = made.folder;
    if (folder.empty()) {
      const auto own = std::make_shared<TemporaryFolder>();
      write_texts(files.model, own->path());
      uses->push_back(own);
      folder = own->path();
    }
    std::error_code none;
    tokenizer = folder + "/tokenizer.json";
    if (!fs::exists(tokenizer, none)) {
      console.note(files::read_file(folder + "/" + kNoTokenizer));
      tokenizer.clear();
    }
  }
  if (!texts.keep.empty()) {
    const auto plan_in = [](const std::string& folder) { return folder + "/" + PlanCache::kPlan; };
    if (!encoder_folder.empty())
      copy_file(plan_in(encoder_folder),
                fs::path(texts.keep).replace_extension(".encoder.plan").string(), "the plan");
    keep(plan_in(made.folder), tokenizer, texts.keep, files, console);
  }
  return {files.name,           std::move(made.plan), std::move(encoder),
          std::move(tokenizer), files.folder,         std::move(uses)};
}

}  // namespace sinter::tools
