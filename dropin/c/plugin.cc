// A C++ library for dlopen.c to load: strings, streams, containers, exceptions and thread_local objects. That program
// is in C, so nobody else sees the C++ library.
#include <iostream>
#include <map>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Log {
    std::vector<std::string> lines;
    ~Log() {
        std::vector<std::string> last(lines);
        last.push_back("closed");
    }
};

thread_local Log log_of_thread;
std::mutex log_of_library_lock; // threads that open the library at once share one copy of it
Log log_of_library;

std::string describe(int number) {
    std::ostringstream stream;
    for (int i = 0; i < 50; i++)
        stream << number << ':' << i << std::string(static_cast<std::size_t>(i), '.') << '\n';
    return stream.str();
}

} // namespace

// Whether a request that cannot be had is told by an exception, and in the form that does not throw by a null pointer.
extern "C" int plugin_has_bad_alloc() {
    volatile std::size_t bytes = std::size_t(1) << 60;
    try {
        delete[] new char[bytes];
        return 0;
    } catch (const std::bad_alloc &) {
        return new (std::nothrow) char[bytes] == nullptr;
    }
}

// Returns the length of what it made, which depends on the number only, or -1.
extern "C" int plugin_run(int number) {
    std::map<std::string, int> counts;
    std::string text = describe(number);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        counts[line] += static_cast<int>(line.size());
    log_of_thread.lines.push_back(text);
    {
        std::lock_guard<std::mutex> held(log_of_library_lock);
        log_of_library.lines.push_back(text);
    }
    try {
        throw std::runtime_error(text);
    } catch (const std::exception &error) {
        std::cout << "plugin " << counts.size() << std::endl;
        return text == error.what() ? static_cast<int>(text.size()) : -1;
    }
}
