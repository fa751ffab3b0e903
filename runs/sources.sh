#!/usr/bin/env bash
# Fetches the training sources into $1: TeX documentation PDFs, texts and word lists, all from Debian packages (main,
# freely licensed; each package's copyright file is unpacked with it), and installs the fonts. Needs a Debian system.
set -euo pipefail
root=${1:?usage: runs/sources.sh FOLDER}
mkdir -p "$root/debs"
cd "$root/debs"
packages="texlive-latex-base-doc texlive-publishers-doc texlive-latex-recommended-doc texlive-science-doc
 texlive-humanities-doc developers-reference maint-guide miscfiles manpages-zh manpages-de manpages-fr manpages-es
 fortunes fortunes-min fortunes-de fortunes-zh dict-gcide
 dict-jargon dict-wn dict-foldoc wamerican wngerman wfrench"
for package in $packages; do apt-get download "$package"; done
for deb in *.deb; do dpkg-deb -x "$deb" "$root"; done
fonts="cmu cardo adf-accanthis adf-baskervald adf-berenis adf-gillius adf-ikarius adf-irianis adf-libris adf-romande
 adf-switzera adf-tribun adf-universalis adf-verana agave anonymous-pro arapey averia-sans-gwf averia-serif-gwf b612
 bpg-georgian cabin cantarell century-catalogue clear-sans comfortaa comic-neue courier-prime crosextra-caladea
 crosextra-carlito croscore dejavu dejavu-extra dosis ebgaramond ebgaramond-extra essays1743 fanwood fantasque-sans
 femkeklaver firacode freefont-otf georgewilliams gfs-artemisia gfs-baskerville gfs-bodoni-classic gfs-didot
 gfs-neohellenic gnutypewriter go goudybookletter hack hermit inconsolata inter isabella jetbrains-mono junction
 junicode jura karla lato league-mono league-spartan levien-typoscript liberation2 lindenhill linuxlibertine lmodern
 lobstertwo manrope monofur mononoki national-park noto-core noto-mono oldstandard open-sans opendin osifont paratype
 play prociono quattrocento quicksand roadgeek roboto-hinted roboto-slab sil-andika sil-charis sil-doulos
 sil-gentiumplus sil-galatia sora stix summersby texgyre tuffy ubuntu-title urw-base35 vollkorn yanone-kaffeesatz
 yrsa-rasa oxygen allerta blankenburg tiresias wqy-microhei wqy-zenhei arphic-gbsn00lp arphic-gkai00mp arphic-uming
 arphic-ukai noto-cjk lxgw-wenkai smiley-sans ipafont-mincho oflb-asana-math elstob millimetre"
# shellcheck disable=SC2046,SC2086
apt-get install -y --no-install-recommends $(printf 'fonts-%s ' $fonts)

# Fraktur, Schwabacher and Gothic with the long s: three faces out of a large package
apt-get download texlive-fonts-extra
faces=/usr/local/share/fonts/blackletter
mkdir -p "$faces" yfonts
dpkg-deb --fsys-tarfile texlive-fonts-extra_*.deb | tar x -C yfonts --wildcards '*/yfonts-otf/y*.otf'
find yfonts -name 'y*.otf' -exec cp {} "$faces/" \;
rm -r yfonts texlive-fonts-extra_*.deb
fc-cache -f
