// NVRTC: hands CUDA C++ with shim.h before it to the compiler of the CPU. The image is the shared library that comes out.
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

struct Program {
  std::string source, log, image;
};

static std::string setting(const char* name, const std::string& otherwise) {
  const char* value = getenv(name);
  return value && *value ? value : otherwise;
}
static std::string folder() {
  Dl_info info;
  dladdr((void*)folder, &info);
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}
static std::string quoted(const std::string& text) { return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'"; }
static std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The source with a table of its kernels behind it.
static std::string for_cpu(const std::string& source) {
  const std::regex comment(R"(//[^\n]*)");
  const std::regex kernel(R"(__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\()");
  const std::string code = std::regex_replace(source, comment, "");
  std::set<std::string> names;
  for (std::sregex_iterator found(code.begin(), code.end(), kernel), end; found != end; ++found) names.insert((*found)[1]);
  std::string table;
  for (auto& name : names) table += "  EmulatorKernel<&" + name + ">::named(\"" + name + "\"),\n";
  return "#include \"shim.h\"\n" + source + R"(
#line 1 "table of kernels"
static const emulator::Kernel emulator_kernels[] = {
)" + table + R"(  {nullptr, 0, nullptr, nullptr}};
// Weak: absent where nothing is shared, or a sanitizer watches.
extern "C" __attribute__((weak, visibility("hidden"))) char __start_emulated_shared[], __stop_emulated_shared[];
extern "C" __attribute__((visibility("default"))) const emulator::Image emulator_image = {
  emulator_kernels, &emulator_thread, &emulator_services, __start_emulated_shared, __stop_emulated_shared};
)";
}

API int nvrtcVersion(int* major, int* minor) {
  *major = 12, *minor = 9;
  return 0;
}
API const char* nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
static std::vector<int> architectures() {
  std::vector<int> known;
  const int first = atoi(setting("EMULATOR_NVRTC_FROM", "70").c_str());
  for (int architecture : {70, 75, 80, 86, 89, 90})
    if (architecture >= first) known.push_back(architecture);
  return known;
}
API int nvrtcGetNumSupportedArchs(int* count) {
  *count = (int)architectures().size();
  return 0;
}
API int nvrtcGetSupportedArchs(int* known) {
  for (int architecture : architectures()) *known++ = architecture;
  return 0;
}
API int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = new Program{source, "", ""};
  return 0;
}
API int nvrtcDestroyProgram(void** program) {
  delete (Program*)*program;
  *program = nullptr;
  return 0;
}
// Options are those of a GPU and mean nothing here, but that products and sums are not fused, which is so here too.
API int nvrtcCompileProgram(void* handle, int, const char* const*) {
  auto* program = (Program*)handle;
  std::string work = setting("TMPDIR", "/tmp") + "/emulator-XXXXXX";
  if (!mkdtemp(work.data())) return 1;
  const std::string source = work + "/kernel.cpp", library = work + "/kernel.so", log = work + "/log";
  std::ofstream(source) << for_cpu(program->source);
  const std::string command = setting("EMULATOR_CXX", "c++") +
    " -std=c++17 -O1 -march=native -ffp-contract=off -g1 -fPIC -shared -fno-strict-aliasing -fvisibility=hidden"
    " -Wno-attributes -Wno-unknown-pragmas " + setting("EMULATOR_CXXFLAGS", "") +
    " -I" + quoted(folder()) + " -o " + quoted(library) + " " + quoted(source) + " 2> " + quoted(log);
  // A sanitizer that watches kernels must not watch their compiler.
  const std::string preloaded = setting("LD_PRELOAD", "");
  unsetenv("LD_PRELOAD");
  const int code = system(command.c_str());
  if (!preloaded.empty()) setenv("LD_PRELOAD", preloaded.c_str(), 1);
  program->log = content(log);
  program->image = content(library);
  for (auto& file : {source, library, log}) unlink(file.c_str());
  rmdir(work.c_str());
  return code == 0 && !program->image.empty() ? 0 : 6;
}
API int nvrtcGetCUBINSize(void* program, size_t* size) {
  *size = ((Program*)program)->image.size();
  return 0;
}
API int nvrtcGetCUBIN(void* program, char* image) {
  memcpy(image, ((Program*)program)->image.data(), ((Program*)program)->image.size());
  return 0;
}
API int nvrtcGetPTXSize(void* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
API int nvrtcGetPTX(void* program, char* image) { return nvrtcGetCUBIN(program, image); }
API int nvrtcGetProgramLogSize(void* program, size_t* size) {
  *size = ((Program*)program)->log.size() + 1;
  return 0;
}
API int nvrtcGetProgramLog(void* program, char* log) {
  strcpy(log, ((Program*)program)->log.c_str());
  return 0;
}
