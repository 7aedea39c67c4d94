# The libraries yoke stands on. A missing one ends the configuration with the line that helps:
# which Debian package it is, and the script that installs it.
function(yoke_missing what package)
  message(FATAL_ERROR "yoke needs ${what}, which was not found.\n"
                      "On Debian it is the package ${package}; scripts/install-deps installs all "
                      "that is missing.\n")
endfunction()

# yoke_pkg(LIBZIP libzip libzip-dev) gives the target PkgConfig::LIBZIP.
macro(yoke_pkg name module package)
  pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  if(NOT ${name}_FOUND)
    yoke_missing(${module} ${package})
  endif()
endmacro()

find_package(PkgConfig QUIET)
if(NOT PkgConfig_FOUND)
  yoke_missing(pkg-config pkgconf)
endif()
find_package(Threads REQUIRED)
find_package(OpenMP QUIET COMPONENTS C)
if(NOT OpenMP_C_FOUND)
  yoke_missing("OpenMP for ${CMAKE_C_COMPILER}" "libomp-dev (clang; gcc brings its own)")
endif()
# By hand: oneDNN's own package file asks for OpenCL's headers too when it was built with it.
find_library(DNNL_LIBRARY dnnl)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE_DIR)
  yoke_missing(oneDNN libdnnl-dev)
endif()
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
yoke_pkg(LIBZIP libzip libzip-dev)
yoke_pkg(LIBCRYPTO libcrypto libssl-dev)
yoke_pkg(LIBCJSON libcjson libcjson-dev)

# Optional parts. AUTO builds a part when its libraries are found, ON insists on them, OFF leaves it
# out; `yoke info` says which parts a program has.
set(YOKE_DOWNLOAD AUTO CACHE STRING "Downloading data sets (libcurl, libarchive): AUTO, ON or OFF")
set(YOKE_PREVIEW AUTO CACHE STRING "Drawing contact sheets (libpng): AUTO, ON or OFF")

# yoke_optional(PREVIEW LIBPNG libpng libpng-dev) sets YOKE_HAS_PREVIEW, and unsets it again where one
# of several libraries is missing.
macro(yoke_optional part name module package)
  set_property(CACHE YOKE_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT YOKE_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "YOKE_${part} is ${YOKE_${part}}: expected AUTO, ON or OFF.")
  endif()
  if(NOT DEFINED YOKE_HAS_${part})
    set(YOKE_HAS_${part} ON)
  endif()
  if(YOKE_${part} STREQUAL ON)
    yoke_pkg(${name} ${module} ${package})
  elseif(YOKE_${part} STREQUAL AUTO)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  endif()
  if(YOKE_${part} STREQUAL OFF)
    set(YOKE_HAS_${part} OFF)
  elseif(NOT ${name}_FOUND)
    set(YOKE_HAS_${part} OFF)
    message(STATUS "YOKE_${part} is left out: it needs ${module} (Debian: ${package})")
  endif()
endmacro()

yoke_optional(DOWNLOAD LIBCURL libcurl libcurl4-openssl-dev)
yoke_optional(DOWNLOAD LIBARCHIVE libarchive libarchive-dev)
yoke_optional(PREVIEW LIBPNG libpng libpng-dev)
